#!/bin/sh
# Plans memory that keeps a kernel's last words over a reset, makes a dump that has them, and
# decodes it. The command `nostall` must be in the path.
set -e
cp "$(dirname "$0")/panic.log" "${1:?usage: $0 EMPTY_FOLDER}"
cd "$1"

nostall pstore plan --size 1M --cpus 4 --ecc 1 --address 0x8f000000 --device-tree

nostall pstore inject --out region.bin --size 1M --cpus 4 --ecc 1 --linux-version 6.12 \
    --record-size 64K --console-size 256K --ftrace-size 256K --pmsg-size 64K \
    --dmesg panic.log --compression deflate --time 1700000000.0

truncate -s 64M memory.bin
dd if=region.bin of=memory.bin bs=1M seek=40 conv=notrunc status=none

printf 'noise' | dd of=memory.bin bs=1 seek=41943140 conv=notrunc status=none
nostall postmortem memory.bin
