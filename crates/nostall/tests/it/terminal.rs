//! Terminals of tests.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Returns the user's end of a new terminal, and the end of its programs.
pub fn terminal() -> (File, File) {
    let user = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap());
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
    let terminal = File::options().read(true).write(true).open(name).unwrap();
    (user, terminal)
}

/// Runs a command on a terminal of this width, and returns its standard output.
pub fn on_terminal(mut command: Command, columns: u16, colour: bool) -> String {
    let (mut user, terminal) = terminal();
    let size = Winsize {
        ws_row: 50,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).unwrap();
    command.env("TERM", "xterm-256color");
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    if !colour {
        command.env("NO_COLOR", "1");
    }
    let child = command.stdout(terminal).stderr(Stdio::null()).spawn();
    drop(command);
    let mut text = Vec::new();
    // The read ends with an error when no process has the terminal open.
    let _ = user.read_to_end(&mut text);
    assert!(child.unwrap().wait().unwrap().success());
    String::from_utf8(text).unwrap().replace("\r\n", "\n")
}
