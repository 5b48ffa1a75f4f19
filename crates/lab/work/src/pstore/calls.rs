//! Functions that stand for the kernel's in the stages. Each first records its entry with its
//! caller.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use nostall_io::{Clock, Nanos};

use super::pipe::{BLOCK, Block, Pipe};

/// Recorder of function entries.
pub trait Tracer {
    /// Whether the tracer stores records.
    const TRACES: bool = true;

    /// Records that the function at `parent` entered the one at `ip`.
    fn record(&mut self, ip: u64, parent: u64);
}

impl<T: Tracer> Tracer for &mut T {
    const TRACES: bool = T::TRACES;

    #[inline]
    fn record(&mut self, ip: u64, parent: u64) {
        (**self).record(ip, parent);
    }
}

/// A tracer that stores nothing.
impl Tracer for () {
    const TRACES: bool = false;

    #[inline]
    fn record(&mut self, _: u64, _: u64) {}
}

/// Longest time that a stage waits for its neighbour to move one block. The wait takes
/// microseconds, but a busy machine may stop for seconds.
const LONGEST_WAIT: Nanos = Nanos::from_secs(5);

/// Number of sleeps after which a stage gives up, even if its clock is before the deadline. It ends
/// the wait if the clock stops or jumps back.
const MOST_SLEEPS: u32 = 1_000_000;

/// A stage's sleep until a neighbour has moved some blocks.
pub trait Sleep {
    /// Yields the CPU unless `ready`, until [`wake_others`](Self::wake_others) or for some
    /// milliseconds. `ready` may become true at any time. The sleep may end early: the caller
    /// checks again.
    fn sleep(&self, ready: &dyn Fn() -> bool);

    /// Ends the sleep of all others.
    fn wake_others(&self);
}

impl<S: Sleep + ?Sized> Sleep for &S {
    fn sleep(&self, ready: &dyn Fn() -> bool) {
        (**self).sleep(ready);
    }

    fn wake_others(&self) {
        (**self).wake_others();
    }
}

/// A file to read or write.
#[derive(Clone, Copy)]
pub(super) enum File<'a> {
    /// Reads zeros endlessly, as `/dev/zero`.
    Zero,
    /// Accepts everything, as `/dev/null`.
    Null,
    /// A pipe, read or written block by block.
    Pipe(&'a Pipe),
}

/// Error: the neighbour did not move in time.
#[derive(Debug)]
pub(super) struct GaveUp;

/// A task that reads and writes files.
pub(super) struct Task<T, C, S> {
    trace: T,
    clock: C,
    sleep: S,
    /// Number of bytes read, and number of bytes written.
    pub read: u64,
    pub written: u64,
}

/// Address of a function.
type Address = *const ();

impl<T: Tracer, C: Clock, S: Sleep> Task<T, C, S> {
    pub(super) const fn new(trace: T, clock: C, sleep: S) -> Self {
        Self {
            trace,
            clock,
            sleep,
            read: 0,
            written: 0,
        }
    }

    /// Reads a block: seven entries for zeros, eight for a pipe.
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

    /// Writes a block: six entries for the null device, eight for a pipe.
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
    fn verify_area(&mut self, parent: Address, position: u64) -> Result<(), GaveUp> {
        let me = self.enter(Self::verify_area as Address, parent);
        position.checked_add(BLOCK as u64).ok_or(GaveUp)?;
        self.permission(me);
        Ok(())
    }

    #[inline(never)]
    fn permission(&mut self, parent: Address) {
        self.enter(Self::permission as Address, parent);
    }

    #[inline(never)]
    fn account(&mut self, parent: Address) -> u64 {
        self.enter(Self::account as Address, parent);
        BLOCK as u64
    }

    #[inline(never)]
    fn read_zero(&mut self, parent: Address, block: &mut Block) {
        let me = self.enter(Self::read_zero as Address, parent);
        self.clear_block(me, block);
    }

    #[inline(never)]
    fn clear_block(&mut self, parent: Address, block: &mut Block) {
        self.enter(Self::clear_block as Address, parent);
        block.fill(0);
    }

    #[inline(never)]
    fn write_null(&mut self, parent: Address) {
        self.enter(Self::write_null as Address, parent);
    }

    #[inline(never)]
    fn pipe_read(&mut self, parent: Address, pipe: &Pipe, block: &mut Block) -> Result<(), GaveUp> {
        let me = self.enter(Self::pipe_read as Address, parent);
        let slot = self.wait_for(&pipe.reader_sleeps, || pipe.next())?;
        self.copy_out(me, slot, block);
        self.wake_writer(me, pipe);
        Ok(())
    }

    #[inline(never)]
    fn pipe_write(&mut self, parent: Address, pipe: &Pipe, block: &Block) -> Result<(), GaveUp> {
        let me = self.enter(Self::pipe_write as Address, parent);
        let slot = self.wait_for(&pipe.writer_sleeps, || pipe.room())?;
        self.copy_in(me, slot, block);
        self.wake_reader(me, pipe);
        Ok(())
    }

    #[inline(never)]
    fn copy_out(&mut self, parent: Address, slot: &[AtomicUsize], block: &mut Block) {
        self.enter(Self::copy_out as Address, parent);
        for (word, slot) in block.iter_mut().zip(slot) {
            *word = slot.load(Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn copy_in(&mut self, parent: Address, slot: &[AtomicUsize], block: &Block) {
        self.enter(Self::copy_in as Address, parent);
        for (word, slot) in block.iter().zip(slot) {
            slot.store(*word, Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn wake_writer(&mut self, parent: Address, pipe: &Pipe) {
        self.enter(Self::wake_writer as Address, parent);
        if pipe.take() {
            self.sleep.wake_others();
        }
    }

    #[inline(never)]
    fn wake_reader(&mut self, parent: Address, pipe: &Pipe) {
        self.enter(Self::wake_reader as Address, parent);
        if pipe.put() {
            self.sleep.wake_others();
        }
    }

    #[inline]
    fn enter(&mut self, ip: Address, parent: Address) -> Address {
        self.trace.record(ip.addr() as u64, parent.addr() as u64);
        ip
    }

    /// Waits until `ready`. Not traced, because the number of checks depends on the neighbour.
    fn wait_for<P>(&self, sleeps: &AtomicBool, ready: impl Fn() -> Option<P>) -> Result<P, GaveUp> {
        if let Some(slot) = ready() {
            return Ok(slot);
        }
        let deadline = self.clock.now() + LONGEST_WAIT;
        for _ in 0..MOST_SLEEPS {
            sleeps.store(true, Ordering::Relaxed);
            // Pairs with the fences in `Pipe::put` and `Pipe::take`.
            fence(Ordering::SeqCst);
            self.sleep.sleep(&|| ready().is_some());
            sleeps.store(false, Ordering::Relaxed);
            if let Some(slot) = ready() {
                return Ok(slot);
            }
            if self.clock.now() > deadline {
                break;
            }
        }
        Err(GaveUp)
    }
}
