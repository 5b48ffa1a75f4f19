//! Reading: the parity check of a whole zone.

use crate::record::{IP, PARENT};
use nostall_bench::{Effort, Limit, Table, Unit};
use nostall_pstore::{
    Code, Division, Ecc, LinuxVersion, OwnCounter, Place, Ram, Reader, Recorder, Zone, ZoneKind,
};
use std::hint::black_box;

static CODE: Code = Code::new(16).unwrap();

pub fn tables(effort: Effort) {
    const SIZE: usize = 1 << 20;
    let mut memory = vec![0; SIZE];
    let division = Division::new(SIZE, CODE.parity()).unwrap();
    let code = Some(&CODE);
    let zone = Zone::attach(
        Ram::of(&mut memory),
        ZoneKind::Ftrace,
        LinuxVersion(0),
        code,
    );
    let mut recorder = Recorder::new(zone.unwrap().0, 0, OwnCounter::new());
    for record in 0..division.data() as u64 / 24 + 1 {
        recorder.record(IP ^ record << 4, PARENT);
    }
    let place = Place {
        kind: ZoneKind::Ftrace,
        index: 0,
        offset: 0,
        division,
    };
    let title = "A zone of 1 MiB with 16 bytes of error correction a block, all clean";
    let mut table = Table::new(title, Unit::MegabytesPerSecond(division.data()));
    let clean = Ecc {
        blocks: division.blocks() + 1,
        ..Ecc::default()
    };
    let memory = &memory[..];
    table.row(
        "PreviousBootZone::ecc: every block checked",
        Limit::AtLeast(300.0),
        |n| {
            for _ in 0..n {
                let mut zone = Reader::careful(code).open(black_box(memory), place);
                assert_eq!(zone.ecc(), Some(clean));
            }
        },
    );
    table.print(effort);
}
