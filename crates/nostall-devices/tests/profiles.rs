//! The cost profiles against what others have published.

use nostall_devices::uart::{Profile, Uart};
use nostall_io::{Clock, Nanos};
use nostall_uart::{Console, LineSettings, Strategy};

/// What one write of `bytes` letters takes.
fn time_to_write(profile: Profile, strategy: Strategy, bytes: u64) -> Nanos {
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    let mut console = Console::open(&port, &clock, LineSettings::baud(115_200)).unwrap();
    console.set_strategy(strategy);
    let text: Vec<u8> = (b'a'..=b'z').cycle().take(bytes as usize).collect();
    let start = clock.now();
    assert!(console.write(&text).is_complete());
    let took = clock.now() - start;
    assert!(port.into_sink() == text);
    took
}

#[test]
fn every_published_figure_is_met_within_10_percent() {
    for profile in Profile::ALL {
        for published in profile.published {
            let ours = time_to_write(profile, published.strategy, published.bytes);
            let ratio = ours.0 as f64 / published.time.0 as f64;
            println!(
                "{}: {} bytes {}: {ours} for {}, {ratio:.3}",
                profile.name, published.bytes, published.strategy, published.time
            );
            assert!((0.9..=1.1).contains(&ratio), "{published:?}: {ours}");
        }
    }
}
