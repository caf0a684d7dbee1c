# SPDX-License-Identifier: BSD-3-Clause
# Completion of kvgate for bash: options and file names.
_kvgate()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local options="--uri --resp --memcached --threads --socket-mode --keys --key --client-keys --no-auth --max-clients --idle-timeout --max-request --max-output --timeout-ms --config --check-config --ready-fd --verbose --quiet --version --help"

	case $prev in
	-r | --resp | -m | --memcached | -k | --keys | -a | --client-keys | -c | --config)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
}
complete -F _kvgate kvgate
