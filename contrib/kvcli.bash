# SPDX-License-Identifier: BSD-3-Clause
# Completion of kvcli for bash: commands, options and file names.
_kvcli()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local commands="get gets put add replace cas append prepend incr decr ttl touch del mget exists keys load dump save restore info clear stats memory clients kill slowlog fsck cluster ping watch top devices doctor keygen help"
	local options="--socket --uri --keys --key --timeout-ms --raw --json --csv --last-from-stdin --repeat --interval --format --if-absent --consistent --file --servers --initial --ttl --key-base64 --count --match --memory --stat --latency --latency-history --intrinsic-latency --bigkeys --quiet --version --help"
	local word

	COMPREPLY=()
	case $prev in
	-s | --socket | -k | --keys | --file)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	-f | --format)
		mapfile -t COMPREPLY < <(compgen -W "auto tsv cdb nul" -- "$cur")
		return
		;;
	esac
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
		return
	fi
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case " $commands " in
		*" $word "*)
			[[ $word == cluster && $prev == cluster ]] &&
				mapfile -t COMPREPLY < <(compgen -W "init status" -- "$cur")
			[[ $word == cluster && " ${COMP_WORDS[*]} " == *" init "* ]] &&
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			[[ $word =~ ^(load|dump|save|restore|info)$ ]] &&
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
			;;
		esac
	done
	mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
}
complete -F _kvcli kvcli
