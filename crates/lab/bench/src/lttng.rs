//! LTTng-UST in its crash-surviving mode: overwritten buffers in a mapped file (`--shm-path`),
//! without a concurrent reader (`--snapshot`).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A private session daemon and a traced program. Dropping this ends both.
pub struct Lttng {
    traced: Child,
    answers: BufReader<ChildStdout>,
    daemon: Daemon,
    _folder: TempDir,
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // SIGTERM lets the daemon end its children and remove its sockets.
        let _ = quiet("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        let _ = self.traced.kill();
        let _ = self.traced.wait();
        let _ = self.daemon.run(&["destroy", SESSION]);
    }
}

const SESSION: &str = "nostall-bench";

impl Lttng {
    /// Starts both.
    ///
    /// # Errors
    ///
    /// The reason for which LTTng is not available, and how to install it.
    pub fn start() -> Result<Self, &'static str> {
        let installed = |program| quiet(program).arg("--version").status().is_ok();
        if !installed("lttng") || !installed("lttng-sessiond") {
            return Err("not installed: apt-get install lttng-tools liblttng-ust-dev");
        }
        let folder = tempfile::tempdir().map_err(|_| "no temporary directory")?;
        let program = folder.path().join("traced");
        compile(&program)?;
        if quiet("lttng")
            .args(["--no-sessiond", "list"])
            .status()
            .is_ok_and(|it| it.success())
        {
            return Err("a session daemon runs here already: not disturbed");
        }
        let daemon = quiet("lttng-sessiond").arg("--no-kernel").spawn();
        let daemon = Daemon(daemon.map_err(|_| "the session daemon does not start")?);
        daemon.wait_until_it_answers()?;
        let memory = format!("--shm-path={}", folder.path().join("memory").display());
        daemon.run(&["create", SESSION, "--snapshot", "--no-output", &memory])?;
        let channel = ["enable-channel", "--userspace", "--overwrite"];
        let sizes = ["--subbuf-size=64k", "--num-subbuf=4", "ring"];
        daemon.run(&[&channel[..], &sizes[..]].concat())?;
        daemon.run(&["enable-event", "--userspace", "--channel=ring", "nostall:*"])?;
        daemon.run(&["start"])?;

        let traced = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut traced = traced.map_err(|_| "the traced program does not start")?;
        let answers = traced.stdout.take().ok_or("no pipe")?;
        Ok(Self {
            traced,
            answers: BufReader::new(answers),
            daemon,
            _folder: folder,
        })
    }

    /// Returns the duration of `count` events.
    ///
    /// # Panics
    ///
    /// If the traced program has ended.
    pub fn events(&mut self, count: u64) -> Duration {
        let questions = self.traced.stdin.as_mut();
        let asked = questions.map(|questions| writeln!(questions, "{count}"));
        let mut answer = String::new();
        let answered = self.answers.read_line(&mut answer);
        match (asked, answered, answer.trim().parse()) {
            (Some(Ok(())), Ok(_), Ok(nanoseconds)) => Duration::from_nanos(nanoseconds),
            _ => panic!("the program that LTTng traces has ended"),
        }
    }
}

impl Daemon {
    fn run(&self, arguments: &[&str]) -> Result<(), &'static str> {
        let done = quiet("lttng").arg("--no-sessiond").args(arguments).status();
        let done = done.is_ok_and(|status| status.success());
        done.then_some(())
            .ok_or("lttng refuses to set up a session")
    }

    fn wait_until_it_answers(&self) -> Result<(), &'static str> {
        let start = Instant::now();
        while self.run(&["list"]).is_err() {
            if start.elapsed() > Duration::from_secs(10) {
                return Err("the session daemon does not answer");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn compile(program: &Path) -> Result<(), &'static str> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("lttng");
    let built = quiet("cc")
        .args(["-O2", "-I"])
        .arg(&sources)
        .arg(sources.join("lttng.c"))
        .arg("-o")
        .arg(program)
        .args(["-llttng-ust", "-ldl"])
        .status();
    let built = built.is_ok_and(|status| status.success());
    built
        .then_some(())
        .ok_or("does not compile: apt-get install gcc liblttng-ust-dev")
}

fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
