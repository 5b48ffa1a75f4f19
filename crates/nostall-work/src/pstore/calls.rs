//! What stands for the kernel under the stages: every function says first that
//! it has been entered, by whom.

use core::sync::atomic::{AtomicUsize, Ordering};

use nostall_io::{Clock, Nanos};

use super::pipe::{BLOCK, Block, Pipe};

/// Is told of every function's entry.
pub trait Tracer {
    /// The function at `ip` was entered from the one at `parent`.
    fn record(&self, ip: u64, parent: u64);
}

impl<T: Tracer + ?Sized> Tracer for &T {
    fn record(&self, ip: u64, parent: u64) {
        (**self).record(ip, parent);
    }
}

/// Nobody is told.
impl Tracer for () {
    fn record(&self, _: u64, _: u64) {}
}

/// How long a stage waits for its neighbour to move one block. It takes
/// microseconds; a machine that is busy elsewhere may stop for seconds.
const LONGEST_WAIT: Nanos = Nanos::from_secs(5);

/// Between two looks at a pipe.
const LOOK: Nanos = Nanos::from_micros(10);

/// What can be read or written.
#[derive(Clone, Copy)]
pub(super) enum File<'a> {
    /// Zeros without end.
    Zero,
    /// Takes everything.
    Null,
    /// Both, block by block.
    Pipe(&'a Pipe),
}

/// The neighbour did not come.
#[derive(Debug)]
pub(super) struct GaveUp;

/// One that reads and writes files.
pub(super) struct Task<T, C> {
    trace: T,
    clock: C,
    /// Bytes read, and bytes written.
    pub read: u64,
    pub written: u64,
}

/// Where a function lies.
type Address = *const ();

impl<T: Tracer, C: Clock> Task<T, C> {
    pub(super) const fn new(trace: T, clock: C) -> Self {
        Self {
            trace,
            clock,
            read: 0,
            written: 0,
        }
    }

    /// Seven entries for zeros, eight for a pipe.
    #[inline(never)]
    pub(super) fn sys_read(
        &mut self,
        parent: Address,
        file: File<'_>,
        block: &mut Block,
    ) -> Result<(), GaveUp> {
        let me = self.enter(Self::sys_read as Address, parent);
        self.vfs_read(me, file, block)
    }

    #[inline(never)]
    fn vfs_read(
        &mut self,
        parent: Address,
        file: File<'_>,
        block: &mut Block,
    ) -> Result<(), GaveUp> {
        let me = self.enter(Self::vfs_read as Address, parent);
        self.verify_area(me, self.read)?;
        match file {
            File::Zero => self.read_zero(me, block),
            File::Pipe(pipe) => self.pipe_read(me, pipe, block)?,
            File::Null => return Err(GaveUp),
        }
        self.read += self.account(me);
        Ok(())
    }

    /// Six entries for nothing, eight for a pipe.
    #[inline(never)]
    pub(super) fn sys_write(
        &mut self,
        parent: Address,
        file: File<'_>,
        block: &Block,
    ) -> Result<(), GaveUp> {
        let me = self.enter(Self::sys_write as Address, parent);
        self.vfs_write(me, file, block)
    }

    #[inline(never)]
    fn vfs_write(&mut self, parent: Address, file: File<'_>, block: &Block) -> Result<(), GaveUp> {
        let me = self.enter(Self::vfs_write as Address, parent);
        self.verify_area(me, self.written)?;
        match file {
            File::Null => self.write_null(me),
            File::Pipe(pipe) => self.pipe_write(me, pipe, block)?,
            File::Zero => return Err(GaveUp),
        }
        self.written += self.account(me);
        Ok(())
    }

    #[inline(never)]
    fn verify_area(&self, parent: Address, position: u64) -> Result<(), GaveUp> {
        let me = self.enter(Self::verify_area as Address, parent);
        position.checked_add(BLOCK as u64).ok_or(GaveUp)?;
        self.permission(me);
        Ok(())
    }

    #[inline(never)]
    fn permission(&self, parent: Address) {
        self.enter(Self::permission as Address, parent);
    }

    #[inline(never)]
    fn account(&self, parent: Address) -> u64 {
        self.enter(Self::account as Address, parent);
        BLOCK as u64
    }

    #[inline(never)]
    fn read_zero(&self, parent: Address, block: &mut Block) {
        let me = self.enter(Self::read_zero as Address, parent);
        self.clear_block(me, block);
    }

    #[inline(never)]
    fn clear_block(&self, parent: Address, block: &mut Block) {
        self.enter(Self::clear_block as Address, parent);
        block.fill(0);
    }

    #[inline(never)]
    fn write_null(&self, parent: Address) {
        self.enter(Self::write_null as Address, parent);
    }

    #[inline(never)]
    fn pipe_read(&self, parent: Address, pipe: &Pipe, block: &mut Block) -> Result<(), GaveUp> {
        let me = self.enter(Self::pipe_read as Address, parent);
        let slot = self.wait_for(|| pipe.next())?;
        self.copy_out(me, slot, block);
        self.wake_writer(me, pipe);
        Ok(())
    }

    #[inline(never)]
    fn pipe_write(&self, parent: Address, pipe: &Pipe, block: &Block) -> Result<(), GaveUp> {
        let me = self.enter(Self::pipe_write as Address, parent);
        let slot = self.wait_for(|| pipe.room())?;
        self.copy_in(me, slot, block);
        self.wake_reader(me, pipe);
        Ok(())
    }

    #[inline(never)]
    fn copy_out(&self, parent: Address, slot: &[AtomicUsize], block: &mut Block) {
        self.enter(Self::copy_out as Address, parent);
        for (word, slot) in block.iter_mut().zip(slot) {
            *word = slot.load(Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn copy_in(&self, parent: Address, slot: &[AtomicUsize], block: &Block) {
        self.enter(Self::copy_in as Address, parent);
        for (word, slot) in block.iter().zip(slot) {
            slot.store(*word, Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn wake_writer(&self, parent: Address, pipe: &Pipe) {
        self.enter(Self::wake_writer as Address, parent);
        pipe.take();
    }

    #[inline(never)]
    fn wake_reader(&self, parent: Address, pipe: &Pipe) {
        self.enter(Self::wake_reader as Address, parent);
        pipe.put();
    }

    fn enter(&self, ip: Address, parent: Address) -> Address {
        self.trace.record(ip.addr() as u64, parent.addr() as u64);
        ip
    }

    /// Not traced: how often it looks depends on the neighbour.
    fn wait_for<S>(&self, ready: impl Fn() -> Option<S>) -> Result<S, GaveUp> {
        if let Some(slot) = ready() {
            return Ok(slot);
        }
        let deadline = self.clock.now() + LONGEST_WAIT;
        loop {
            let now = self.clock.now();
            self.clock.sleep_until(now + LOOK);
            if let Some(slot) = ready() {
                return Ok(slot);
            }
            if now > deadline {
                return Err(GaveUp);
            }
        }
    }
}
