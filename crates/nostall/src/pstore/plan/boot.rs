//! Parameters for Linux at boot.
//!
//! Source: Linux 6.1, `fs/pstore/ram.c` (module parameters, `ramoops_parse_dt`),
//! `Documentation/admin-guide/ramoops.rst`,
//! `Documentation/devicetree/bindings/reserved-memory/ramoops.yaml`.

use nostall_pstore::{FTRACE_PER_CPU, Layout, Params};

use super::region::{KINDS, Plan};

/// The parameters of the kernel command line, in one line. Without an address, Linux
/// 6.11 and newer find one by themselves. `None` if it cannot be said there: there is no
/// parameter for the flags.
pub fn command_line(plan: &Plan) -> Option<String> {
    let params = plan.params();
    let per_cpu = Layout::new(&Params {
        flags: FTRACE_PER_CPU,
        ..*params
    });
    let same = |layout: Layout| {
        let mut kinds = KINDS.into_iter();
        kinds.all(|kind| layout.row_of(kind) == plan.layout.row_of(kind))
    };
    if !per_cpu.is_ok_and(same) {
        return None;
    }
    let size = params.mem_size;
    let place = match plan.address {
        Some(address) => {
            format!("memmap={size:#x}${address:#x} ramoops.mem_address={address:#x}")
        }
        None => format!("reserve_mem={size:#x}:4096:oops ramoops.mem_name=oops"),
    };
    Some(format!(
        "{place} ramoops.mem_size={size:#x} ramoops.record_size={:#x} \
         ramoops.console_size={:#x} ramoops.ftrace_size={:#x} ramoops.pmsg_size={:#x} \
         ramoops.ecc={} pstore.backend=ramoops",
        params.record_size, params.console_size, params.ftrace_size, params.pmsg_size, params.ecc
    ))
}

/// The node, which can be appended to a board's source; `None` without an address.
pub fn device_tree(plan: &Plan) -> Option<String> {
    let address = plan.address?;
    let Params {
        mem_size,
        record_size,
        console_size,
        ftrace_size,
        pmsg_size,
        ecc,
        flags,
        ..
    } = plan.params();
    let (high, low) = (address >> 32, address & 0xffff_ffff);
    Some(format!(
        "/ {{
	reserved-memory {{
		/* As many cells as the root node has: two each on 64-bit boards. */
		#address-cells = <2>;
		#size-cells = <2>;
		ranges;

		ramoops@{address:x} {{
			compatible = \"ramoops\";
			reg = <{high:#x} {low:#x} 0x0 {mem_size:#x}>;
			record-size = <{record_size:#x}>;
			console-size = <{console_size:#x}>;
			ftrace-size = <{ftrace_size:#x}>;
			pmsg-size = <{pmsg_size:#x}>;
			ecc-size = <{ecc}>;
			/* 1: a trace zone for each CPU. Left out, it is 0. */
			flags = <{flags}>;
			/*
			 * mem-type and unbuffered are left out: write-combining memory is
			 * right, unless the board's documentation asks for another.
			 */
		}};
	}};
}};
"
    ))
}
