//! The machine and its kernel, as far as the paths depend on them.

use serde::Serialize;

use super::system::System;

/// A machine and its kernel.
#[derive(Serialize)]
pub struct Machine {
    /// The kernel's release; empty if it is not known.
    pub release: String,
    /// The release's first two numbers.
    pub version: Option<(u32, u32)>,
    /// Whether the kernel is built with PREEMPT_RT.
    pub realtime: bool,
    /// Whether this is a virtual machine, if that is known.
    pub is_guest: Option<bool>,
    /// The machine's name, or its hypervisor's, from the firmware; empty if there is none.
    pub product: String,
    /// Whether configuration space can be reached by ports too, as on x86.
    #[serde(skip)]
    pub has_ports: bool,
    /// The kernel's command line.
    #[serde(skip)]
    options: String,
}

/// Parts of products' names that only virtual machines have.
const VIRTUAL: [&str; 6] = [
    "QEMU",
    "VMware",
    "KVM",
    "HVM domU",
    "Virtual Machine",
    "dummy-virt",
];

impl Machine {
    pub fn new(system: &System) -> Self {
        let line = |file, answer| {
            let text = system.read(file, answer).unwrap_or_default();
            text.lines().next().unwrap_or_default().to_owned()
        };
        let release = line("proc/sys/kernel/osrelease", "the kernel's release");
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let mut number = || numbers.next()?.parse().ok();
        let version = number().zip(number());
        let cpu = system.read("proc/cpuinfo", "whether this is a virtual machine");
        let flags = cpu.iter().flat_map(|text| text.lines());
        let flags = flags.into_iter().find(|line| line.starts_with("flags"));
        let names = [
            "sys/hypervisor/type",
            "sys/class/dmi/id/sys_vendor",
            "sys/class/dmi/id/product_name",
            "sys/firmware/devicetree/base/compatible",
        ];
        let names = names.map(|file| line(file, "the machine's name"));
        let product = names.join(" ").trim().chars().take(50).collect::<String>();
        let is_virtual = || VIRTUAL.iter().any(|name| product.contains(name));
        let is_guest = match flags {
            _ if !names[0].is_empty() => Some(true),
            Some(flags) => Some(flags.split(' ').any(|flag| flag == "hypervisor")),
            None => is_virtual().then_some(true),
        };
        Self {
            version,
            // Linux itself has no /sys/kernel/realtime: only the patches for PREEMPT_RT do.
            realtime: line(
                "proc/sys/kernel/version",
                "whether the kernel is PREEMPT_RT",
            )
            .contains("PREEMPT_RT")
                || line("sys/kernel/realtime", "whether the kernel is PREEMPT_RT") == "1",
            is_guest,
            product,
            has_ports: flags.is_some(),
            options: line("proc/cmdline", "the kernel's command line"),
            release,
        }
    }

    /// Returns the values of an option on the kernel's command line.
    pub fn option<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let words = self.options.split_whitespace();
        words.filter_map(move |word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns whether the kernel has that version or a newer one; `None` if this is not known.
    pub fn since(&self, major: u32, minor: u32) -> Option<bool> {
        Some(self.version? >= (major, minor))
    }

    /// Returns the kernel's name for a person.
    pub fn linux(&self) -> String {
        match (self.version, self.realtime) {
            (Some((major, minor)), true) => format!("Linux {major}.{minor} with PREEMPT_RT"),
            (Some((major, minor)), false) => format!("Linux {major}.{minor}"),
            (None, _) => "Linux of unknown version".to_owned(),
        }
    }
}
