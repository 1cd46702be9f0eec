//! The part of the protocol of `MariaDB` that a pooler has to understand: where an answer ends, and whether the session is in a
//! transaction then ("Client/Server Protocol" in MariaDB's documentation).

use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

// First bytes of a server's packets.
pub(super) const OK: u8 = 0x00;
pub(super) const ERR: u8 = 0xff;
const END_OF_ROWS: u8 = 0xfe;

// First bytes of a client's packets.
pub(super) const QUIT: u8 = 0x01;
pub(super) const QUERY: u8 = 0x03;
pub(super) const PING: u8 = 0x0e;
pub(super) const PREPARE: u8 = 0x16;
pub(super) const EXECUTE: u8 = 0x17;
pub(super) const CLOSE_STATEMENT: u8 = 0x19;
const RESET_CONNECTION: u8 = 0x1f;

// Flags of a server, in the second byte of its capabilities, and of its session.
const CAN_ENCRYPT: u8 = 0x08;
const IN_TRANSACTION: u16 = 1;
const MORE_RESULTS: u16 = 8;

/// A flag of a client, in the fourth byte of its capabilities: of a result's two ends, one behind the columns and one behind the
/// rows, it wants the last alone.
const ONE_END: u8 = 0x01;

/// One packet, without its length. A result of 16 MiB or more comes in several, and is refused here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    number: u8,
    pub(super) body: Vec<u8>,
}

impl Packet {
    /// Its first byte, which says what it is.
    pub(super) fn code(&self) -> u8 {
        self.body.first().copied().unwrap_or(ERR)
    }

    /// True for a statement that changes how the session understands others.
    pub(super) fn is_setting(&self) -> bool {
        self.code() == QUERY && self.body.get(1..5).is_some_and(|word| word.eq_ignore_ascii_case(b"SET "))
    }

    /// The command that makes a session like new, but for its number.
    pub(super) fn reset() -> Self {
        Self { number: 0, body: vec![RESET_CONNECTION] }
    }

    /// Whether a client has [`ONE_END`], in its first packet.
    pub(super) fn knows_one_end(&self) -> bool {
        self.body.get(3).is_some_and(|capabilities| capabilities & ONE_END != 0)
    }

    /// Changes the greeting of a server: a pooler could not read what is encrypted.
    pub(super) fn offer_no_encryption(&mut self) {
        // The version ends with a zero; the number of the connection, eight bytes and a zero follow.
        let version = self.body.iter().position(|byte| *byte == 0).unwrap_or(self.body.len());
        if let Some(capabilities) = self.body.get_mut(version + 15) {
            *capabilities &= !CAN_ENCRYPT;
        }
    }

    /// The number of the statement that a command refers to, or that was prepared.
    pub(super) fn statement(&self) -> io::Result<u32> {
        let number = self.body.get(1..5).and_then(|bytes| bytes.try_into().ok());
        number.map(u32::from_le_bytes).ok_or_else(cut_off)
    }

    pub(super) fn set_statement(&mut self, number: u32) -> io::Result<()> {
        self.body.get_mut(1..5).ok_or_else(cut_off)?.copy_from_slice(&number.to_le_bytes());
        Ok(())
    }

    /// The flags of the session at the end of a result: they follow two numbers, which vary in length.
    fn status(&self) -> io::Result<u16> {
        let (_, rest) = number(self.body.get(1..).unwrap_or_default())?;
        let (_, rest) = number(rest)?;
        short(rest, 0)
    }
}

/// All packets that answer one command.
pub(super) struct Response {
    pub(super) packets: Vec<Packet>,
    pub(super) is_in_transaction: bool,
    prepared: Option<u32>,
}

impl Response {
    /// True unless it is an error.
    pub(super) fn is_done(&self) -> bool {
        self.packets.last().is_some_and(|last| last.code() != ERR)
    }

    /// The number of the statement, if one was prepared.
    pub(super) fn statement(&self) -> Option<u32> {
        self.prepared
    }
}

/// A connection, packet by packet.
pub(super) struct Wire {
    stream: TcpStream,
    /// The last known flags of the session. An error has none, nor has the answer to a statement that was prepared.
    status: u16,
    is_new: bool,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, status: 0, is_new: true })
    }

    /// True until something was written.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(super) async fn read(&mut self) -> io::Result<Packet> {
        let [a, b, c, number] = self.stream.read_u32().await?.to_be_bytes();
        let length = u32::from_le_bytes([a, b, c, 0]);
        if length == 0xff_ff_ff {
            return Err(io::Error::other("a packet of 16 MiB"));
        }
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body).await?;
        Ok(Packet { number, body })
    }

    pub(super) async fn write(&mut self, packet: &Packet) -> io::Result<()> {
        let [a, b, c, _] = u32::try_from(packet.body.len()).map_err(io::Error::other)?.to_le_bytes();
        let mut bytes = vec![a, b, c, packet.number];
        bytes.extend_from_slice(&packet.body);
        self.is_new = false;
        self.stream.write_all(&bytes).await
    }

    /// Reads the whole answer to a command of this code.
    pub(super) async fn answer(&mut self, command: u8) -> io::Result<Response> {
        let (mut packets, mut prepared) = (Vec::new(), None);
        loop {
            let first = self.read().await?;
            let (code, more) = (
                first.code(),
                match (first.code(), command) {
                    (ERR, _) => 0,
                    (OK, PREPARE) => {
                        prepared = Some(first.statement()?);
                        u64::from(short(&first.body, 5)?) + u64::from(short(&first.body, 7)?)
                    }
                    (OK, _) => 0,
                    _ => number(&first.body)?.0,
                },
            );
            packets.push(first);
            // The names and types of parameters, or of columns.
            for _ in 0..more {
                packets.push(self.read().await?);
            }
            if code != OK && code != ERR {
                self.rows(&mut packets).await?;
            }
            let last = packets.last().ok_or_else(cut_off)?;
            if last.code() != ERR && prepared.is_none() {
                self.status = last.status()?;
            }
            if last.code() == ERR || prepared.is_some() || self.status & MORE_RESULTS == 0 {
                let is_in_transaction = self.status & IN_TRANSACTION != 0;
                return Ok(Response { packets, is_in_transaction, prepared });
            }
        }
    }

    async fn rows(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        loop {
            let row = self.read().await?;
            let is_last = matches!(row.code(), END_OF_ROWS | ERR);
            packets.push(row);
            if is_last {
                return Ok(());
            }
        }
    }
}

/// A number whose first byte tells its length, and the bytes that follow.
fn number(bytes: &[u8]) -> io::Result<(u64, &[u8])> {
    let (first, rest) = bytes.split_first().ok_or_else(cut_off)?;
    let length = match first {
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        small => return Ok((u64::from(*small), rest)),
    };
    let (bytes, rest) = rest.split_at_checked(length).ok_or_else(cut_off)?;
    Ok((bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)), rest))
}

fn short(bytes: &[u8], at: usize) -> io::Result<u16> {
    let short = bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
    short.map(u16::from_le_bytes).ok_or_else(cut_off)
}

fn cut_off() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}
