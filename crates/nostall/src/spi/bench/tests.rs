use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn args(line: &str) -> Result<Args, clap::Error> {
    let words = ["bench", "/dev/spidev0.0"].into_iter();
    Cli::try_parse_from(words.chain(line.split_whitespace())).map(|cli| cli.args)
}

const FLASH: Set = Set {
    mode: SpiModeFlags::SPI_TX_QUAD.union(SpiModeFlags::SPI_MODE_3),
    bits: 8,
    clock: 50_000_000,
};

#[test]
fn nothing_is_sent_without_bytes_to_send() {
    assert_eq!(args("").unwrap().what(), None);
    for line in ["--clock 1M", "--mode 0", "--no-cs", "--json x", "--bytes 4"] {
        assert!(args(line).is_err(), "{line}");
    }
    assert!(args("--send 9f --loopback").is_err());
    assert_eq!(args("--loopback").unwrap().what(), Some(Payload::Loopback));
    let sent = args("--send 9f00").unwrap().what();
    assert_eq!(sent, Some(Payload::Bytes(vec![0x9f, 0])));
}

#[test]
fn a_device_keeps_its_settings_unless_options_change_them() {
    let of = |line, set| args(line).unwrap().settings(set);
    let as_set = of("--send 00", &FLASH).unwrap();
    let expected = Settings::new(50_000_000, 0).mode(MODE_3);
    assert_eq!(as_set, expected);
    let changed = of("--send 00 --mode 1 --clock 400k --no-cs", &FLASH).unwrap();
    let expected = Settings::new(400_000, 0).select(Select::None).mode(MODE_1);
    assert_eq!(changed, expected);
    let odd = Set {
        mode: SpiModeFlags::SPI_CS_HIGH | SpiModeFlags::SPI_LSB_FIRST,
        ..FLASH
    };
    let odd = of("--send 00", &odd).unwrap();
    assert_eq!(odd.order, BitOrder::LsbFirst);
    assert_eq!(odd.select, Select::Line(0, Polarity::ActiveHigh));
    let unknown = Set { clock: 0, ..FLASH };
    assert!(of("--send 00", &unknown).is_err());
    let three = Set {
        mode: SpiModeFlags::SPI_3WIRE,
        ..FLASH
    };
    assert!(of("--send 00", &three).is_err());
}

#[test]
fn lengths_are_what_can_be_sent() {
    let of = |line: &str, bufsiz| {
        let args = args(line).unwrap();
        args.lengths(&args.what().unwrap(), bufsiz)
    };
    assert_eq!(of("--send 9f", 4096).unwrap(), [4, 64, 1024, 4096]);
    assert_eq!(of("--send 0102030405", 4096).unwrap(), [5, 64, 1024, 4096]);
    assert_eq!(of("--loopback", 512).unwrap(), [4, 64, 512]);
    assert_eq!(of("--loopback", 2).unwrap(), [2]);
    assert_eq!(of("--send 9f --bytes 8,1,8", 4096).unwrap(), [1, 8]);
    assert!(of("--send 9f00 --bytes 1", 4096).is_err());
    assert!(of("--send 9f --bytes 4097", 4096).is_err());
    assert!(of("--send 9f00", 1).is_err());
}

#[test]
fn clocks_have_units() {
    assert_eq!(hertz("10M"), Ok(10_000_000));
    assert_eq!(hertz("500k"), Ok(500_000));
    assert_eq!(hertz("1000000"), Ok(1_000_000));
    for wrong in ["", "0", "M", "-1", "+1", "10m", "1.5M", "5000M", "ä"] {
        assert!(hertz(wrong).is_err(), "{wrong}");
    }
}
