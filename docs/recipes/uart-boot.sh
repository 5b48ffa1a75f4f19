#!/usr/bin/env bash
# Boots a Linux kernel on nostall's own machine with each mode of its serial port in turn,
# and prints the figures to report (docs/src/serial-console.md).
#
#   docs/recipes/uart-boot.sh BZIMAGE [ROUNDS]
#
# NOSTALL: the command, if it is not in the path. NOSTALL_ARGS: further arguments for
# `nostall vm run`, such as --pci ports. BUSYBOX: a statically linked busybox.
set -euo pipefail

WAYS="ports ports-coalesced mmio-readonly"

die() { echo "uart-boot: $*" >&2; exit 1; }

[ $# -ge 1 ] && [ $# -le 2 ] || die "usage: $0 BZIMAGE [ROUNDS]"
kernel=$1
rounds=${2:-5}
[ -r "$kernel" ] || die "cannot read $kernel"
[[ $rounds =~ ^[1-9][0-9]{0,2}$ ]] || die "ROUNDS is a number from 1 to 999: $rounds"
nostall=${NOSTALL:-nostall}
command -v "$nostall" >/dev/null || die "no $nostall: cargo install --path crates/nostall, or set NOSTALL"
busybox=${BUSYBOX:-$(command -v busybox)} || die "no busybox: install busybox-static, or set BUSYBOX"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The initrd has one program, which turns the machine off.
mkdir -p "$work/root/bin"
cp "$busybox" "$work/root/bin/busybox"
printf '#!/bin/busybox sh\nexec /bin/busybox poweroff -f\n' >"$work/root/init"
chmod +x "$work/root/init"
(cd "$work/root" && find . | "$busybox" cpio -o -H newc 2>/dev/null) >"$work/initrd"

# Boots once, and writes the statistics to a file.
boot() {
    local way=$1 stats=$work/$1.$2
    # shellcheck disable=SC2086 # several words are several arguments
    "$nostall" vm run "$kernel" --initrd "$work/initrd" --uart-mode "$way" --stats --timeout 120 \
        ${NOSTALL_ARGS:-} </dev/null >"$work/log" 2>"$stats" || {
        cat "$stats" >&2
        die "$way: the boot did not end; the last output of Linux: $(tail -n 3 "$work/log")"
    }
    grep -qx 'ended by: power off' "$stats" ||
        die "$way: Linux did not turn the machine off, $(grep '^ended by' "$stats" || tail -n 1 "$stats")"
    grep -qx "uart: $way" "$stats" ||
        die "$way: this KVM does not support it: $(head -n 1 "$stats")"
}

# Prints the median of a figure: of an even number of rounds, the lower one.
median() {
    local way=$1 name=$2
    sed -n "s/^$name: //p" "$work/$way".* | sort -g | sed -n "$(((rounds + 1) / 2))p"
}

for ((round = 1; round <= rounds; round++)); do
    for way in $WAYS; do
        printf '\rround %d of %d, %-16s' "$round" "$rounds" "$way" >&2
        boot "$way" "$round"
    done
done
printf '\r%40s\r' '' >&2

echo "Linux boot, serial port offered in three ways; medians of $rounds rounds, alternating"
echo
row='%-16s %10s %8s %10s %12s %12s %12s\n'
# shellcheck disable=SC2059 # the format is ours
{
    printf "$row" way seconds bytes exits "at the UART" "a byte" "by kernel"
    for way in $WAYS; do
        printf "$row" "$way" "$(median "$way" seconds)" "$(median "$way" 'bytes sent')" \
            "$(median "$way" 'exits to user space')" "$(median "$way" 'exits at the UART')" \
            "$(median "$way" 'exits at the UART per byte')" \
            "$(median "$way" "exits in the host's kernel")"
    done
}
echo
echo "Please report this, all of it:"
echo "  CPU:         $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
echo "  host kernel: $(uname -sr)"
echo "  KVM:         $(sed -n 's/^kvm: //p' "$work/ports.1")"
echo "  guest:       $(strings -n 8 "$kernel" 2>/dev/null | grep -m 1 -E '^[0-9]+\.[0-9]+\.[0-9]+.*\(.*@.*\)' || basename "$kernel")"
echo "  nostall:     $("$nostall" --version), arguments: ${NOSTALL_ARGS:-none}"
echo "  each round's seconds:"
for way in $WAYS; do
    echo "    $way: $(for ((r = 1; r <= rounds; r++)); do sed -n 's/^seconds: //p' "$work/$way.$r"; done | xargs)"
done
