#!/bin/bash
# Become one host: started by ssh_hosts.py inside fresh network, PID, UTS and mount namespaces.
#
#   ssh_host.sh NAME ADDRESS HOST_DIR SHARED_DIR SOFTWARE...
#
# HOST_DIR holds what a host has for itself (home, tmp, host key, boot id); SHARED_DIR is the shared file system.
# SOFTWARE is what every host has installed: the checkout and its environment, which may be below /tmp.
set -euo pipefail
name=$1 address=$2 dir=$3 shared=$4
shift 4

hostname "$name"
mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$dir/passwd" /etc/passwd
mount -t tmpfs tmpfs /run
mkdir /run/sshd /run/shared /run/host /run/keys
install -m 644 "$dir/authorized_keys" /run/keys/plain

# The same shared directory under the same path everywhere; all other temporary files are the host's own.
mount --bind "$shared" /run/shared
mount --bind "$dir" /run/host
for i in $(seq $#); do
  mkdir "/run/software$i"
  mount --bind "${!i}" "/run/software$i"
done
mount --bind /run/host/tmp /tmp
mount --bind /run/host/var-tmp /var/tmp
mkdir -p "$shared" "$dir"
mount --bind /run/shared "$shared"
mount --bind /run/host "$dir"
for i in $(seq $#); do
  mkdir -p "${!i}"
  mount --bind "/run/software$i" "${!i}"
done

ip link set lo up
until ip link show e0 >/dev/null 2>&1; do sleep 0.02; done
# As real hosts do, keep the hardware address over a reboot: others have it in their caches.
ip link set e0 address "02:00:0a:4d:00:$(printf %02x "${address##*.}")"
ip address add "$address/24" dev e0
ip link set e0 up

exec /usr/sbin/sshd -D -e -f /dev/null \
  -o HostKey="$dir/host_key" -o AuthorizedKeysFile="$dir/authorized_keys /run/keys/%u" \
  -o StrictModes=no -o PidFile=none -o UsePAM=no -o UseDNS=no -o PrintMotd=no -o Subsystem="sftp internal-sftp"
