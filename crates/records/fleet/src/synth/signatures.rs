//! The crashes of a made fleet.

/// A crash that several machines have.
pub struct Signature {
    /// Class, as in the table of crashes.
    pub class: &'static str,
    /// Lines of the report before the stack, without level and time.
    pub report: &'static [&'static str],
    /// Message of the panic.
    pub panic: &'static str,
    /// Functions of the stack, innermost first. The first is the one that crashed.
    pub stack: &'static [&'static str],
    /// Functions that are called only before this crash.
    pub before: &'static [&'static str],
    /// Share of the crashes in percent.
    pub share: u64,
    /// Number of days before the end of the fleet's dates at which it first occurs.
    pub since_days: u64,
}

/// All crashes. Their shares add up to 100.
pub const SIGNATURES: [Signature; 8] = [
    Signature {
        class: "null-dereference",
        report: &[
            "BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "#PF: supervisor read access in kernel mode",
            "Oops: 0000 [#1] PREEMPT SMP NOPTI",
        ],
        panic: "Fatal exception in interrupt",
        stack: &[
            "nvme_complete_rq.cold",
            "nvme_pci_complete_rq",
            "blk_complete_reqs",
            "blk_done_softirq",
            "handle_softirqs",
            "irq_exit_rcu",
        ],
        before: &["nvme_timeout", "nvme_reset_work", "nvme_disable_ctrl"],
        share: 28,
        since_days: 28,
    },
    Signature {
        class: "bug",
        report: &[
            "kernel BUG at fs/ext4/inode.c:2717!",
            "invalid opcode: 0000 [#1] PREEMPT SMP NOPTI",
        ],
        panic: "Fatal exception",
        stack: &[
            "ext4_writepages",
            "do_writepages",
            "__writeback_single_inode",
            "writeback_sb_inodes",
            "wb_writeback",
            "wb_workfn",
            "process_one_work",
            "worker_thread",
            "kthread",
        ],
        before: &["ext4_remount", "ext4_clear_journal_err"],
        share: 18,
        since_days: 28,
    },
    Signature {
        class: "soft-lockup",
        report: &["watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [kworker/1:2:77]"],
        panic: "softlockup: hung tasks",
        stack: &[
            "wait_for_xmitr",
            "serial8250_console_putchar",
            "uart_console_write",
            "serial8250_console_write",
            "univ8250_console_write",
            "console_emit_next_record",
            "console_unlock",
        ],
        before: &["sysrq_handle_showallcpus", "show_stack_loglvl"],
        share: 15,
        since_days: 28,
    },
    Signature {
        class: "page-fault",
        report: &[
            "BUG: unable to handle page fault for address: ffffa0f3c0de0010",
            "#PF: supervisor write access in kernel mode",
            "Oops: 0002 [#1] PREEMPT SMP NOPTI",
        ],
        panic: "Fatal exception in interrupt",
        stack: &[
            "virtnet_poll.isra.0",
            "__napi_poll",
            "net_rx_action",
            "handle_softirqs",
            "__do_softirq",
        ],
        before: &["virtnet_config_changed_work", "virtnet_set_queues"],
        share: 13,
        since_days: 28,
    },
    Signature {
        class: "sysrq",
        report: &[],
        panic: "sysrq triggered crash",
        stack: &[
            "dump_stack_lvl",
            "panic",
            "sysrq_handle_crash",
            "__handle_sysrq",
            "write_sysrq_trigger",
            "proc_reg_write",
            "vfs_write",
            "ksys_write",
        ],
        before: &["sysrq_parse_reset_sequence"],
        share: 8,
        since_days: 28,
    },
    Signature {
        class: "out-of-memory",
        report: &[],
        panic: "Out of memory: compulsory panic_on_oom is enabled",
        stack: &[
            "dump_stack_lvl",
            "panic",
            "out_of_memory.cold",
            "__alloc_pages_slowpath.constprop.0",
            "__alloc_pages",
            "folio_alloc",
            "filemap_fault",
        ],
        before: &["shrink_node", "shrink_slab", "do_try_to_free_pages"],
        share: 8,
        since_days: 28,
    },
    Signature {
        class: "hung-task",
        report: &["INFO: task jbd2/vda1-8:211 blocked for more than 120 seconds."],
        panic: "hung_task: blocked tasks",
        stack: &[
            "__schedule",
            "schedule",
            "io_schedule",
            "bit_wait_io",
            "out_of_line_wait_on_bit",
            "jbd2_journal_commit_transaction",
        ],
        before: &["blk_mq_freeze_queue"],
        share: 6,
        since_days: 28,
    },
    Signature {
        class: "protection-fault",
        report: &[
            "general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] PREEMPT SMP NOPTI",
        ],
        panic: "Fatal exception",
        stack: &[
            "list_del_event",
            "event_sched_out",
            "perf_event_exit_task",
            "do_exit",
            "do_group_exit",
        ],
        before: &["perf_event_update_userpage", "perf_swevent_init"],
        share: 4,
        since_days: 6,
    },
];

/// Functions that every kernel calls all the time.
pub const COMMON: [&str; 24] = [
    "__schedule",
    "pick_next_task_fair",
    "update_curr",
    "enqueue_task_fair",
    "dequeue_task_fair",
    "hrtimer_interrupt",
    "tick_sched_timer",
    "ktime_get",
    "rcu_note_context_switch",
    "vfs_read",
    "vfs_write",
    "fsnotify",
    "security_file_permission",
    "__fget_light",
    "do_syscall_64",
    "kmem_cache_alloc",
    "kmem_cache_free",
    "__slab_free",
    "page_add_file_rmap",
    "handle_mm_fault",
    "unlock_page",
    "wake_up_q",
    "try_to_wake_up",
    "ttwu_do_activate",
];

/// Builds of the kernel: release, version, and share of the dumps in percent.
pub const BUILDS: [(&str, &str, u64); 4] = [
    (
        "6.1.187",
        "#1 SMP PREEMPT_DYNAMIC Debian 6.1.187-1 (2026-06-02)",
        40,
    ),
    (
        "6.1.190",
        "#1 SMP PREEMPT_DYNAMIC Debian 6.1.190-1 (2026-08-21)",
        30,
    ),
    (
        "6.12.114",
        "#1 SMP PREEMPT_DYNAMIC Debian 6.12.114-1 (2026-09-09)",
        20,
    ),
    (
        "6.12.117",
        "#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-11-01)",
        10,
    ),
];
