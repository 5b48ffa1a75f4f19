//! `nostall spi bench` and the controller `Spidev` on a real Linux: Debian's kernel for riscv64, in
//! QEMU's machine sifive_u. That machine has an is25wp256 flash at its first SPI controller.
//! `make spi-linux` fetches the files.

#![cfg(target_os = "linux")]

use crate::common::spi_linux as guest;

use guest::{Guest, guest};
use serde_json::Value;

/// The is25wp256's ID in QEMU (hw/block/m25p80.c: 0x9d7019).
const JEDEC_ID: &str = "9d 70 19";

#[test]
fn a_real_linux_reads_writes_and_measures_a_flash_through_spidev() {
    let Some(guest) = guest("a_real_linux_reads_writes_and_measures_a_flash_through_spidev") else {
        return;
    };
    let said = guest.run(SCRIPT).unwrap();
    let part = |name| Guest::part(&said, name);

    // The controller's own tests, on the flash.
    let (status, tests) = part("controller");
    assert_eq!(status, 0, "{tests}");
    assert!(tests.contains("JEDEC ID [9d, 70, 19]"), "{tests}");
    assert!(tests.contains("0 failed; 0 ignored"), "{tests}");
    assert!(!tests.contains("SKIPPED"), "{tests}");

    let (status, shown) = part("asked");
    assert_eq!(status, 0, "{shown}");
    for word in [
        "jedec,spi-nor",
        "sifive_spi",
        "4,096 bytes",
        "Nothing was sent",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let (_, messages) = part("messages before");
    let (_, after) = part("messages after");
    assert_eq!(messages, after, "asking sent something");

    let (status, measured) = part("measured");
    assert_eq!(status, 0, "{measured}");
    let answer = format!("sent 9f 00 00 00; came 00 {JEDEC_ID}");
    assert!(measured.contains(&answer), "{measured}");
    assert!(measured.contains("Linux does not pump"), "{measured}");
    println!("{measured}");
    let (_, json) = part("json");
    figures(&serde_json::from_str(&json).unwrap());

    // Each part prints one error line, and leaves nothing behind.
    for (name, says) in [
        ("no chip select", "Linux refuses the message"),
        ("no loopback", "did not come back (of 4 bytes: sent "),
        ("too long", "to 4096 bytes"),
        ("not root", "run it as root"),
        ("another", "there is /dev/spidev0.0, /dev/spidev1.0"),
        ("interrupted", "interrupted"),
        ("gone", "the device is gone"),
    ] {
        let (status, error) = part(name);
        let errors: Vec<_> = error
            .lines()
            .filter(|line| line.starts_with("nostall: ") && !line.contains("measuring for"))
            .collect();
        assert_eq!(status, 1, "{name}: {error}");
        assert_eq!(errors.len(), 1, "{name}: {error}");
        assert!(errors[0].contains(says), "{name}: {error}");
        assert!(!error.contains("panicked"), "{name}: {error}");
    }
    let (_, before) = part("mode before");
    let (_, after) = part("mode after");
    assert!(
        before.contains("mode        0, may send on 4 wires"),
        "{before}"
    );
    assert_eq!(before, after);
    let (_, left) = part("left behind");
    assert_eq!(left.trim(), "");
}

/// Checks the figures. No other program uses the bus, so our counts equal Linux's.
fn figures(document: &Value) {
    let host = &document["host"];
    assert_eq!(host["driver"], "sifive_spi");
    assert_eq!(host["controller"], "spi0");
    let results = document["results"].as_array().unwrap();
    let value = |strategy: &str, metric: &str, of: &str| {
        let is_it = |figure: &&Value| {
            figure["strategy"] == strategy && figure["metric"] == metric && figure["case"] == of
        };
        let figure = results.iter().find(is_it);
        let figure = figure.unwrap_or_else(|| panic!("no {metric} of {strategy}"));
        assert_eq!(figure["path"], "spi");
        figure["value"].as_f64().unwrap()
    };
    for (strategy, bytes, threads) in [
        ("spidev", 4.0, 1.0),
        ("caller", 4.0, 1.0),
        ("spidev", 4096.0, 1.0),
        ("caller", 4096.0, 1.0),
        ("spidev", 4.0, 2.0),
        ("mutex", 4.0, 2.0),
        ("caller", 4.0, 2.0),
    ] {
        let of = format!("{bytes}-bytes-{threads}-threads");
        let value = |metric| value(strategy, metric, &of);
        let messages = value("messages");
        assert!(messages > 0.0, "{strategy} {of}");
        assert!(value("messages_per_second") > 0.0);
        assert_eq!(value("linux_messages"), messages, "{strategy} {of}");
        assert_eq!(value("linux_transfers"), messages);
        assert_eq!(value("linux_bytes"), messages * bytes);
        assert_eq!(value("linux_spi_sync"), messages);
        assert_eq!(value("linux_spi_async"), 0.0);
        assert_eq!(value("linux_errors") + value("linux_timedout"), 0.0);
        // One thread at a time: Linux's bus is idle whenever a message arrives, and this Linux
        // runs the message in its caller.
        if threads == 1.0 || strategy != "spidev" {
            assert_eq!(value("linux_spi_sync_immediate"), messages);
            assert_eq!(value("linux_sync_immediate_share"), 1.0);
        }
        let [median, most, longest] =
            ["median_latency_ns", "p999_latency_ns", "longest_latency_ns"].map(value);
        assert!(0.0 < median && median <= most && most <= longest);
        // This kernel provides these figures.
        value("linux_worker_wakeups_per_message");
        value("linux_worker_cpu_share");
        value("context_switches_per_message");
    }
}

/// A script of parts. Each prints its name, its output and its exit status.
const SCRIPT: &str = r#"
part() { echo "== $1"; shift; "$@" 2>&1; echo "== ended $?"; }
bench() { /nostall spi bench /dev/spidev0.0 "$@"; }
mode() { bench | grep '^mode'; }
messages() { cat /sys/class/spi_master/spi0/statistics/messages; }
# Not through a function: its $! in the background is a shell, which ignores SIGINT.
# After the first message, everything is opened and set, however slow the host.
begin() {
    local sent=$(messages)
    /nostall spi bench /dev/spidev0.0 --send 9f --seconds 600 "$@" &
    until [ $(messages) -gt $sent ]; do sleep 0.1; done
}
interrupted() { begin --mode 3; kill -INT $!; wait $!; }
gone() { begin; echo spi0.0 > /sys/bus/spi/drivers/spidev/unbind; wait $!; }
part 'messages before' messages
part asked bench
part 'messages after' messages
part 'mode before' mode
NOSTALL_SPIDEV_FLASH=/dev/spidev0.0 part controller /controller --nocapture --test-threads=1
part measured bench --send 9f --bytes 4,4096 --threads 2 --json /json
part json cat /json
part 'no chip select' bench --send 00 --no-cs
part 'no loopback' bench --loopback
part 'too long' bench --send 00 --bytes 5000
part 'not root' su -s /bin/sh guest -c '/nostall spi bench /dev/spidev0.0'
part another /nostall spi bench /dev/spidev0.7 --send 00
part interrupted interrupted
part 'mode after' mode
part gone gone
part 'left behind' pidof nostall
"#;
