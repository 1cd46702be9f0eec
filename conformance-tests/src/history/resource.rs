use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Seek, Write};
use std::path::Path;

/// A counter in a file, shared by the processes of this host, that looks at tokens: what a lock with a fencing token is
/// to protect. Each call is one atomic step. Every client opens it for itself.
///
/// Reading shows the token as well. A resource that looks at tokens only when it is written to accepts the write of an
/// older grant after a newer one has read, and the newer one then overwrites it: an update is lost although every check
/// was passed.
#[derive(Debug)]
pub struct FencedCounter(Shared);

/// The same counter without a look at tokens: as safe as the lock alone makes it.
#[derive(Debug)]
pub struct PlainCounter(Shared);

impl FencedCounter {
    /// The counter in this file, at zero if it is not there.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn open(path: &Path) -> Result<Self> {
        Shared::open(path).map(Self)
    }

    /// The number, or `None` for a token that is older than one which was shown before.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn read(&mut self, token: u64) -> Result<Option<u64>> {
        self.0.step(|[number, highest]| {
            let fresh = token >= *highest;
            *highest = token.max(*highest);
            fresh.then_some(*number)
        })
    }

    /// Writes the number, unless the token is older than one which was shown before: false then.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn write(&mut self, token: u64, new: u64) -> Result<bool> {
        self.0.step(|[number, highest]| {
            let fresh = token >= *highest;
            if fresh {
                (*number, *highest) = (new, token);
            }
            fresh
        })
    }
}

impl PlainCounter {
    /// The counter in this file, at zero if it is not there.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn open(path: &Path) -> Result<Self> {
        Shared::open(path).map(Self)
    }

    /// The number.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn read(&mut self) -> Result<u64> {
        self.0.step(|[number, _]| *number)
    }

    /// Writes the number.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn write(&mut self, new: u64) -> Result<()> {
        self.0.step(|[number, _]| *number = new)
    }
}

/// Two numbers in a file. The kernel's lock on it is not the one under test: it lasts for one step, and ends with its
/// process.
#[derive(Debug)]
struct Shared(File);

impl Shared {
    fn open(path: &Path) -> Result<Self> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    fn step<T>(&mut self, step: impl FnOnce(&mut [u64; 2]) -> T) -> Result<T> {
        self.0.lock()?;
        let outcome = self.locked(step);
        self.0.unlock()?;
        outcome
    }

    fn locked<T>(&mut self, step: impl FnOnce(&mut [u64; 2]) -> T) -> Result<T> {
        let mut file = &self.0;
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        let mut numbers = parse(&text)?;
        let outcome = step(&mut numbers);
        // Always as long as the last time, and in one call: there is never half a number in it.
        let text = format!("{:020} {:020}\n", numbers[0], numbers[1]);
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        Ok(outcome)
    }
}

fn parse(text: &str) -> Result<[u64; 2]> {
    let mut numbers = [0; 2];
    for (number, word) in numbers.iter_mut().zip(text.split_whitespace()) {
        *number = word.parse().map_err(|_| Error::new(ErrorKind::InvalidData, format!("{text:?}")))?;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_token_can_neither_read_nor_write() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fenced");
        let (mut one, mut two) = (FencedCounter::open(&path).unwrap(), FencedCounter::open(&path).unwrap());
        assert_eq!(one.read(3).unwrap(), Some(0));
        assert!(one.write(3, 1).unwrap(), "a token was refused that is the highest");
        assert_eq!(two.read(5).unwrap(), Some(1));
        assert!(!one.write(3, 2).unwrap(), "a newer token had been shown, by a reader");
        assert_eq!(one.read(4).unwrap(), None);
        assert!(two.write(5, 2).unwrap());
        assert_eq!(two.read(5).unwrap(), Some(2));
    }

    #[test]
    fn a_plain_counter_takes_what_it_is_given() {
        let directory = tempfile::tempdir().unwrap();
        let mut counter = PlainCounter::open(&directory.path().join("plain")).unwrap();
        assert_eq!(counter.read().unwrap(), 0);
        counter.write(7).unwrap();
        counter.write(6).unwrap();
        assert_eq!(counter.read().unwrap(), 6);
    }
}
