# SPDX-License-Identifier: BSD-3-Clause
# Completion of kvserver for bash: options and file names.
_kvserver()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local options="--memory --memory-file --verify --verify-file --replace --restore --save --save-every --socket --socket-mode --max-item-size --max-key-size --when-full --index-slots --grace-ms --hugepages --max-sessions --drain-ms --transport --listen --device --keys --keys-on-socket --no-auth --cluster --cluster-map --node-name --ack-timeout --tos --control-buffers --metrics --user --numa-node --log-format --config --check-config --ready-fd --verbose --quiet --version --help"

	case $prev in
	-M | --memory-file | --verify-file | -s | --socket | -k | --keys | -c | --config | --restore | --save | --cluster-map)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	-t | --transport)
		mapfile -t COMPREPLY < <(compgen -W "auto shm rdma both" -- "$cur")
		return
		;;
	--when-full)
		mapfile -t COMPREPLY < <(compgen -W "refuse evict" -- "$cur")
		return
		;;
	-u | --user)
		mapfile -t COMPREPLY < <(compgen -u -- "$cur")
		return
		;;
	--log-format)
		mapfile -t COMPREPLY < <(compgen -W "text logfmt json" -- "$cur")
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
}
complete -F _kvserver kvserver
