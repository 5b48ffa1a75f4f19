# Entry of each CPU from the boot protocol.
#
# State at entry (PVH, Xen's docs/misc/pvh.pandoc): 32-bit protected mode, paging off,
# flat segments, interrupts off, EBX = physical address of the start info.

# The ELF note with the entry's address: XEN_ELFNOTE_PHYS32_ENTRY, type 18.
.section .note.Xen, "a", @note
    .balign 4
    .long 4
    .long 4
    .long 18
    .asciz "Xen"
    .long pvh_entry

.section .text.boot, "ax"
.code32
.global pvh_entry
pvh_entry:
    cld
    movl %ebx, start_info

    # Identity-map the first 4 GiB with 2 MiB pages and all access rights, until
    # paging.rs activates its tables. 2048 entries: present, writable, large.
    movl $0x83, %eax
    movl $boot_directories, %edi
    xorl %ecx, %ecx
1:  movl %eax, (%edi,%ecx,8)
    addl $0x200000, %eax
    incl %ecx
    cmpl $2048, %ecx
    jb 1b
    movl $boot_directories + 3, %eax
    xorl %ecx, %ecx
2:  movl %eax, boot_pointers(,%ecx,8)
    addl $0x1000, %eax
    incl %ecx
    cmpl $4, %ecx
    jb 2b
    movl $boot_pointers + 3, boot_level4

# Switches every CPU from 32-bit protected mode to long mode.
enter_long_mode:
    movl $boot_level4, %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $0x20, %eax             # PAE
    movl %eax, %cr4
    movl $0xc0000080, %ecx      # EFER
    rdmsr
    orl $0x900, %eax            # LME, NXE
    wrmsr
    movl %cr0, %eax
    orl $0x80010001, %eax       # PG, WP, PE
    movl %eax, %cr0
    lgdt boot_gdt_pointer
    ljmp $0x08, $long_mode

.code64
long_mode:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs

    # Take a number, and select the stack of that number.
    movl $1, %edi
    lock xaddl %edi, cpus_arrived(%rip)
    cmpl $MAX_CPUS, %edi
    jae 3f
    leal 1(%edi), %eax
    imull $STACK_STRIDE, %eax, %eax
    leaq stacks(%rip), %rsp
    addq %rax, %rsp
    movl start_info(%rip), %esi
    xorl %edx, %edx
    xorl %ebp, %ebp
    call rust_entry
3:  cli
    hlt
    jmp 3b

.section .rodata.boot, "a"
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9a000000ffff    # 0x08: 64-bit code
    .quad 0x00cf92000000ffff    # 0x10: data
    .quad 0x00cf9a000000ffff    # 0x18: 32-bit code
boot_gdt_end:
boot_gdt_pointer:
    .word boot_gdt_end - boot_gdt - 1
    .long boot_gdt
    .long 0

# The other CPUs start in real mode, at the page in the start-up message. This
# code is copied to that page, and is position-independent.
.global trampoline_start, trampoline_end
.code16
trampoline_start:
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    lgdtl trampoline_gdt - trampoline_start
    movl %cr0, %eax
    orb $1, %al
    movl %eax, %cr0
    ljmpl $0x18, $protected_mode
    .balign 4
trampoline_gdt:
    .word boot_gdt_end - boot_gdt - 1
    .long boot_gdt
trampoline_end:

.section .text.boot, "ax"
.code32
protected_mode:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    jmp enter_long_mode
.code64

.section .bss.boot, "aw", @nobits
    .balign 4096
boot_level4:      .skip 0x1000
boot_pointers:    .skip 0x1000
boot_directories: .skip 0x4000
.global stacks
stacks:           .skip MAX_CPUS * STACK_STRIDE
start_info:       .skip 4
.global cpus_arrived
cpus_arrived:     .skip 4
