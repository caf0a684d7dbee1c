#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Explore a model of the protocol: it must hold in every state. MODEL_LARGE=1 explores
# larger configurations too, and tries the model itself: each broken rule must be
# noticed, and the places that matter must be reached.
#
# run.sh MODEL.pml
# shellcheck disable=SC2154
set -u
command -v spin >/dev/null || {
	echo "SKIP: spin is not installed"
	exit 77
}
[ "${SANITIZED:-no}" = no ] || {
	echo "SKIP: the model is the same in every build"
	exit 77
}
name=$(basename "$1" .pml)
model=$srcdir/tests/model/$name.pml
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failures=0

large() { [ -n "${MODEL_LARGE:-}" ]; }

# States are compressed where they would not fit: that takes a third more time, and half
# the memory. The small configurations take less than 500 MB without.
compressed=
! large || compressed=-DCOLLAPSE

# explore OPTIMIZATION FLAG...: the verifier's output is in $dir/log.
explore() {
	optimization=$1
	shift
	# Spin's own preprocessor call wants the flags in front of the file.
	spin -a "$@" "$model" >log 2>&1 &&
		cc -w "$optimization" -DSAFETY $compressed -DMEMLIM=2500 -o pan pan.c >>log 2>&1 &&
		./pan -m100000 >>log 2>&1
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' log)
	states=$(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' log)
	whole=yes
	grep -Eq 'Search not completed|max search depth too small|out of memory' log && whole=no
}

say() {
	printf '%-8s %-8s %-55s %10s states\n' "$1" "$name" "$2" "$states"
}

# -O2 takes two seconds more for a model than -Og, and saves that with 13 million states.
holds() {
	explore -Og "$@"
	if [ "${errors:-1}" -eq 0 ] && [ $whole = yes ]; then
		say holds "$*"
	else
		say FAILS "$*"
		cat log
		failures=$((failures + 1))
	fi
}

must_fail() {
	word=$1
	shift
	explore -O0 "$@"
	if [ "${errors:-0}" -ge 1 ] && grep -q 'assertion violated' log; then
		say "$word" "$*"
	else
		say MISSED "$*"
		tail -20 log
		failures=$((failures + 1))
	fi
}
noticed() { ! large || must_fail noticed "$@"; }
reached() { ! large || must_fail reached "$@"; }

slot() {
	holds -DSAME_FP -DEMPTY_START
	holds -DSAME_FP -DOPS0=3 -DOPS1=0
	holds -DSAME_FP -DDELETE_CAS -DFAST_PATH -DREADS=0 -DOPS0=1 -DOPS1=2
	if large; then
		holds -DREADS=0
		holds -DSAME_FP
		holds -DSAME_FP -DOPS1=2 -DREADS=0
		holds -DSAME_FP -DDELETE_CAS
		holds -DSAME_FP -DFAST_PATH -DREADS=0 -DOPS0=2 -DOPS1=2
	fi

	reached -DSAME_FP -DCOVER_ABSORBED
	reached -DSAME_FP -DCOVER_LOST_INSERT
	reached -DSAME_FP -DCOVER_VERSION_DIFFERS
	reached -DSAME_FP -DCOVER_LATE_AND_CHANGED
	reached -DSAME_FP -DCOVER_LATE_AND_UNCHANGED
	reached -DSAME_FP -DCOVER_BAD_BLOCK -DMUTANT_REUSE_BEFORE_T -DOPS1=0

	reached -DSAME_FP -DFAST_PATH -DCOVER_LOST_FAST -DREADS=0 -DOPS0=1 -DOPS1=2

	noticed -DSAME_FP -DFAST_PATH -DMUTANT_LOST_FAST_BELIEVES -DREADS=0 -DOPS0=1 -DOPS1=2
	noticed -DSAME_FP -DMUTANT_CLAIM_ANY_EMPTY
	noticed -DSAME_FP -DMUTANT_DELETE_EMPTIES
	noticed -DSAME_FP -DMUTANT_LOST_INSERT_TAKES_NEXT
	noticed -DSAME_FP -DMUTANT_NO_INC_IN_WORD
	noticed -DSAME_FP -DMUTANT_ABSORB_WITH_OLD_WORD
	noticed -DSAME_FP -DMUTANT_ABSORB_BEFORE_CONDITIONAL
	noticed -DSAME_FP -DMUTANT_ABSORBED_DELETE
	noticed -DSAME_FP -DDELETE_CAS -DMUTANT_BLIND_DELETE_CAS
	noticed -DSAME_FP -DMUTANT_ABSORBED_INSERT -DEMPTY_START -DOPS0=1 -DREADS=0

	# The grace period and the check of a block's content guard against the same
	# thing. Each alone is enough; without both, values are mixed up.
	if large; then
		holds -DSAME_FP -DMUTANT_REUSE_BEFORE_T -DOPS0=3 -DOPS1=0
		holds -DSAME_FP -DMUTANT_NO_CHECK_OF_CONTENT -DOPS0=3 -DOPS1=0
	fi
	noticed -DSAME_FP -DMUTANT_REUSE_BEFORE_T -DMUTANT_NO_CHECK_OF_CONTENT -DOPS1=0
	noticed -DSAME_FP -DMUTANT_LATE_READER_GOES_ON -DMUTANT_NO_CHECK_OF_CONTENT -DOPS1=0
}

# Incarnations that are exhausted, and incarnations that only a sweep resets.
resolve() {
	holds -DINCS=2 -DEMPTY_START
	holds -DINCS=4
	if large; then
		holds -DINCS=2
		holds -DINCS=3 -DRIVAL_OPS=4 -DBREAKS=3
		holds -DINCS=3 -DRIVAL_OPS=4 -DBREAKS=3 -DEMPTY_START
	fi

	reached -DCOVER_DONE
	reached -DCOVER_AGAIN
	reached -DCOVER_ABSORBED
	reached -DCOVER_FROZEN_TAKEN
	reached -DCOVER_BARRIER_BEFORE_LOOK_UP

	noticed -DMUTANT_BLIND_PUT_REPEATED
	noticed -DMUTANT_OLD_LANE_LIVES
	noticed -DMUTANT_DELETE_IN_PLACE_PROVES
	noticed -DMUTANT_EMPTY_OF_ANY_GENERATION -DEMPTY_START
	noticed -DMUTANT_ABSORBED_BY_ANY
	noticed -DMUTANT_ABSORBS_ALL
	noticed -DMUTANT_SWEEPS_COUNT_ONLY
	noticed -DMUTANT_BARRIERS_PASSED_LOST -DINCS=4
	noticed -DMUTANT_BARRIER_UNDER_WAY_LOST -DINCS=4
	noticed -DMUTANT_OLD_ALERT_LOST -DINCS=4
	noticed -DMUTANT_BARRIER_BEFORE_LOOK_UP -DINCS=4
	noticed -DMUTANT_LOOK_UP_WAITS -DINCS=4
}

# Again T and the check of a block's content guard against the same thing.
migrate() {
	holds -DDEAD_START -DNO_CHECK_OF_CONTENT -DRIVAL_OPS=1
	holds -DDEATHS -DPAGES_HOLD_VALUES -DRIVAL_OPS=1
	if large; then
		holds -DPAGES_HOLD_VALUES
		holds -DMIGRATIONS=2 -DRIVAL_OPS=1
		holds -DDOUBLED_START -DMUTANT_REUSE_BEFORE_T
		holds -DRIVAL_OPS=3
		holds -DMIGRATIONS=2
		holds -DMIGRATIONS=3 -DRIVAL_OPS=1
		holds -DOPS0=2 -DRIVAL_OPS=1
		holds -DOPS1=1 -DRIVAL_OPS=0
		holds -DBACKWARDS
		holds -DDEAD_START -DNO_CHECK_OF_CONTENT
		# More than is needed: one look at D, or at D and the entry before
		# the words, would do.
		holds -DD_COMPARED_ONCE
		holds -DENTRY_BEFORE_WORDS
	fi

	reached -DCOVER_FROZEN_TAKEN
	reached -DCOVER_FROZEN_MISS
	reached -DCOVER_BEHIND_FROZEN -DDEAD_START
	reached -DCOVER_CAS_MEETS_FROZEN
	reached -DCOVER_DOUBLED_MEANWHILE
	reached -DCOVER_WRITE_WHILE_HALF_PUBLISHED -DDOUBLED_START
	reached -DCOVER_WRITE_TO_USED_PAGE -DMIGRATIONS=2
	reached -DCOVER_LATE_AND_FROZEN
	reached -DCOVER_BAD_BLOCK -DMUTANT_REUSE_BEFORE_T

	noticed -DMUTANT_EMPTY_NOT_FROZEN
	noticed -DMUTANT_ONE_PASS
	noticed -DMUTANT_ENTRY_FROM_CACHE
	noticed -DMUTANT_D_NOT_COMPARED
	noticed -DMUTANT_PAGE_BEFORE_BARRIER -DMIGRATIONS=2 -DRIVAL_OPS=1
	noticed -DMUTANT_PAGE_BEFORE_BARRIER -DPAGES_HOLD_VALUES
	noticed -DMUTANT_FENCED_BUT_ALIVE -DDEATHS -DPAGES_HOLD_VALUES -DRIVAL_OPS=1
	noticed -DMUTANT_FROZEN_FAST_PATH
	noticed -DMUTANT_ABSORBED_BY_FROZEN -DRIVAL_OPS=1
	noticed -DMUTANT_REUSE_BEFORE_T -DNO_CHECK_OF_CONTENT
	noticed -DMUTANT_LATE_GOES_ON -DNO_CHECK_OF_CONTENT
	noticed -DMUTANT_FROZEN_STANDS -DNO_CHECK_OF_CONTENT
	noticed -DMUTANT_DROPPED_AT_ONCE -DNO_CHECK_OF_CONTENT -DDEAD_START
}

# A session that lives and one that dies; one that lives and one that comes and
# leaves; all of them.
# shellcheck disable=SC2086
sweep() {
	living='-DOPS1=0 -DGRANTS=0'
	coming='-DRETURNS=0 -DOPS0=0 -DOPS2=0'
	holds $coming
	holds -DRETURNS=0 -DREQUESTS=0
	if large; then
		holds $living -DRETURNS=0
		holds $living -DOPS2=0
		holds $living
	fi

	reached $living -DCOVER_SWEPT
	reached $living -DCOVER_CLAIMED_IN_SLOT
	reached $living -DCOVER_AGAIN
	reached $living -DCOVER_NEWCOMER

	noticed $living -DMUTANT_NO_BEGIN
	noticed $living -DMUTANT_ACKS_NOT_AWAITED
	noticed $living -DMUTANT_ACK_AT_ONCE
	noticed $living -DMUTANT_ANSWERS_AT_ONCE
	noticed $living -DMUTANT_WAITS_WITH_BLOCK
	noticed $living -DMUTANT_DEATH_IN_THE_MIDDLE
	noticed $living -DMUTANT_WORDS_MOVE_BACK
	noticed $coming -DMUTANT_LEAVES_SILENTLY
	noticed $coming -DMUTANT_NEWCOMER_APART
	noticed $coming -DMUTANT_GRANT_BEFORE_BEGIN
	noticed $coming -DMUTANT_GRANT_UNKNOWN
}

# The gate, by membarrier(2) and without; a copy beside a writer.
order() {
	holds
	holds -DFENCE
	holds -DCOPY

	reached -DCOVER_SAW_NOTHING
	reached -DCOVER_WAITED
	reached -DCOPY -DCOVER_CHANGED

	noticed -DMUTANT_NO_MEMBARRIER
	noticed -DMUTANT_PLAIN_LEAVE
	noticed -DMUTANT_ALERT_LAST
	noticed -DMUTANT_ODD_IS_EVEN
	noticed -DCOPY -DMUTANT_NO_FENCE_BEHIND_THE_COPY
	noticed -DCOPY -DMUTANT_PLAIN_PUBLISH
	noticed -DCOPY -DMUTANT_PLAIN_UNLINK
}

# The word that is looked at again, the time T/2, and the barrier condition: each is needed.
borrow() {
	holds -DBORROWS=1 -DWRITES=3
	if large; then
		holds
		holds -DWRITES=3 -DBARRIERS=2
		holds -DWRITES=5
	fi

	reached -DCOVER_LATE_AND_UNCHANGED
	reached -DCOVER_CHANGED_WITHIN_T
	reached -DCOVER_BARRIER
	reached -DCOVER_TORN

	noticed -DMUTANT_NO_BARRIER
	noticed -DMUTANT_NO_BARRIER_BY_WORD
	noticed -DMUTANT_NO_BARRIER_WITHIN_T
	noticed -DMUTANT_REUSE_BEFORE_T
	noticed -DMUTANT_WORD_NOT_LOOKED_AT
	noticed -DMUTANT_FROZEN_STANDS
	noticed -DMUTANT_CHECK_OUTSIDE
}

# A reader by loads, and one that knows a sample of CLOCK.
expiry() {
	holds -DOPS1=0
	holds -DREMOTE -DOPS1=0
	if large; then
		holds -DREADS=0
		holds -DTICKS=1
		holds -DREMOTE -DOPS1=0 -DREADS=2
		holds -DREMOTE -DOPS0=0 -DOPS1=0 -DREADS=2 -DTICKS=3 -DFIRST=2
	fi

	reached -DCOVER_EXPIRED_MISS -DOPS1=0
	reached -DCOVER_ADD_REPLACES_EXPIRED -DREADS=0
	reached -DREMOTE -DCOVER_UNSURE -DOPS1=0

	noticed -DMUTANT_REAPER_BLIND -DREADS=0
	noticed -DMUTANT_CLOCK_AFTER_LAST_LOOK -DOPS1=0
	noticed -DMUTANT_DATED_LOCATION_BELIEVED -DOPS0=2 -DOPS1=0 -DREADS=0
	noticed -DREMOTE -DMUTANT_MISS_EXTRAPOLATED -DOPS1=0
	noticed -DREMOTE -DMUTANT_CLOCK_JUMPS -DOPS0=0 -DOPS1=0 -DREADS=2 -DTICKS=3 -DFIRST=2
}

# A partition that moves, and a server that is lost meanwhile.
cluster() {
	holds
	holds -DLOSES_OWNER
	if large; then
		holds -DOPS=2
		holds -DBACK
	fi

	reached -DCOVER_WAITED
	reached -DCOVER_MOVED
	reached -DCOVER_LATE
	reached -DCOVER_ABANDONED
	reached -DCOVER_LOST -DLOSES_OWNER

	noticed -DMUTANT_SERVES_AFTER_FENCE
	noticed -DMUTANT_COPY_BEFORE_FENCE
	noticed -DMUTANT_PASS_BEGAN_BEFORE_FENCE
	noticed -DMUTANT_FENCE_WITHOUT_ACKS
	noticed -DMUTANT_BARRIER_WITHOUT_MAP
	noticed -DMUTANT_LEASE_AFTER_ACK
	noticed -DMUTANT_LEASE_OF_THE_OWNER -DBACK
	noticed -DMUTANT_WAITER_KEEPS_ITS_EPOCH
	noticed -DMUTANT_COPYING_ENDS_LATE
	noticed -DMUTANT_DELETES_AT_FENCE
	noticed -DMUTANT_PART_OF_A_COPY_SERVED -DLOSES_OWNER
	noticed -DMUTANT_BEGINS_BEFORE_ITS_SERVER -DLOSES_OWNER
}

# A server's lease, and a client that reads by itself.
lease() {
	holds -DPUTS=1
	if large; then
		holds
	fi

	reached -DPUTS=1 -DCOVER_RETURNED
	reached -DPUTS=1 -DCOVER_COUNTS

	noticed -DMUTANT_LEASE_FROM_ANSWER
	noticed -DMUTANT_MAP_READ_FIRST
	noticed -DMUTANT_RETURNS_WITH_DATA
	noticed -DPUTS=1 -DMUTANT_KEEPS_ITS_EPOCH
}

# A server whose keys another one copies, until it is lost; copying processes and servers that end.
follow() {
	holds
	if large; then
		holds -DRESTARTS=1 -DWAITS=1
	fi

	reached -DCOVER_PROMOTED
	reached -DCOVER_RECURRED
	reached -DCOVER_LATE
	reached -DCOVER_WAIT_FAILS

	noticed -DMUTANT_WAIT_TAKES_THE_RUNNING_PASS
	noticed -DMUTANT_WAITED_IN_DOUBT
	noticed -DMUTANT_WAITED_WITHOUT_LINE
	noticed -DMUTANT_WAIT_FORGETS_THE_LOST_SERVER
	noticed -DMUTANT_RECURRING_WORD_NOT_NAMED
	noticed -DMUTANT_LINE_BEFORE_COPY_IS_WHOLE
	noticed -DMUTANT_PROMOTED_BEFORE_COPYING_ENDS
	noticed -DMUTANT_PART_OF_A_COPY_SERVED
	noticed -DMUTANT_PUT_BY_A_MAP_FROM_OTHERS
	noticed -DMUTANT_NEW_PROCESS_ENDS_THE_PASS -DRESTARTS=1
	noticed -DMUTANT_WAITED_BY_AN_OLD_VIEW -DRESTARTS=1
	noticed -DMUTANT_LINE_STAYS -DRESTARTS=1
	noticed -DMUTANT_BEGINS_AGAIN_UNDER_ITS_MAP -DRESTARTS=1
}

# One server that ends, at any moment; in the large configuration two in a row.
adopt() {
	holds -DKILLS=0
	holds -DOPS=0
	if large; then
		holds
		holds -DKILLS=2 -DOPS=0
	fi

	reached -DCOVER_REDONE
	reached -DCOVER_OLD_CLIENT_WRITES
	reached -DCOVER_GRANTED_AFTER_ADOPTION

	noticed -DMUTANT_SWEEP_AWAITS_NOBODY
	noticed -DMUTANT_BARRIER_AWAITS_NOBODY
	noticed -DMUTANT_OTHER_META
	noticed -DMUTANT_NO_REDO
	noticed -DMUTANT_REDO_LATE
	noticed -DMUTANT_ONE_FROZEN_IS_ALL
}

"$name"
[ "$failures" -eq 0 ]
