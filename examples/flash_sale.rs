//! A flash sale: 100 000 buyers in four processes want ten items. The shop reads its stock, takes the money, and writes the
//! stock back: two buyers in between have bought the same item. Once without a lock, once with one, and once with a semaphore, whose
//! slots are the shelves of the shop; on MariaDB and on Redis, servers of its own, which end with it.
//!
//! `cargo run --release --example flash_sale --features full`

#![allow(clippy::print_stdout, reason = "an example talks")]

use futures_util::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use leasehold::{DistributedLock, DistributedLockExt, Semaphore};
use leasehold_test_stores::servers::{MariaDbServer, RedisServer};
use sqlx::{Executor, MySqlPool, query, query_scalar};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const ITEMS: i64 = 10;
/// With a semaphore, so many buyers pay at the same time, each at a shelf of its own.
const SHELVES: u32 = 5;
const BUYERS: usize = 100_000;
const PROCESSES: usize = 4;
/// Buyers of one process who are in the shop at the same time.
const AT_ONCE: usize = 64;
/// How long it takes to pay.
const PAYING: Duration = Duration::from_millis(2);
/// How many buyers a process serves between two words about it.
const SERVED: usize = 500;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.as_slice() {
        [_, url, shelves] => serve_buyers(url, shelves.parse()?).await,
        _ => hold_sales().await,
    }
}

/// The sales, one after the other.
async fn hold_sales() -> Result<()> {
    let redis = RedisServer::start()?;
    let mariadb = MariaDbServer::start()?;
    let at_mariadb = format!("mariadb://root@127.0.0.1:{}/{}", mariadb.port(), MariaDbServer::DATABASE);
    println!("{BUYERS} buyers in {PROCESSES} processes, {ITEMS} items");
    for (store, url) in [("MariaDB", at_mariadb), ("Redis", redis.url())] {
        for (shelves, how) in
            [(0, "without a lock"), (1, "with the lock"), (SHELVES, "with a semaphore of shelves")]
        {
            let (sold, took) = hold_sale(&url, shelves).await?;
            let verdict = match sold - ITEMS {
                0 => "exactly what there was".to_owned(),
                more => format!("{more} more than there were"),
            };
            println!("{store}, {how}: {sold} sold, {verdict} ({:.1} s)", took.as_secs_f64());
        }
    }
    Ok(())
}

/// One sale. How many items were sold, and how long it took.
async fn hold_sale(url: &str, shelves: u32) -> Result<(i64, Duration)> {
    let shop = Shop::open(url).await?;
    shop.stock_up(shelves.max(1)).await?;
    if let Some(admin) = leasehold::connect(url).await?.admin() {
        admin.init().await?;
    }
    let bar = ProgressBar::new(BUYERS as u64)
        .with_style(ProgressStyle::with_template("{bar:40} {pos} buyers, {elapsed}")?);
    let start = Instant::now();
    let processes: Vec<Child> = (0..PROCESSES).map(|_| start_process(url, shelves)).collect::<Result<_>>()?;
    let watching = processes.into_iter().map(|process| {
        let bar = bar.clone();
        tokio::task::spawn_blocking(move || watch(process, &bar))
    });
    for watched in watching.collect::<Vec<_>>() {
        watched.await??;
    }
    bar.finish_and_clear();
    Ok((shop.sold().await?, start.elapsed()))
}

fn start_process(url: &str, shelves: u32) -> Result<Child> {
    let shelves = shelves.to_string();
    Ok(Command::new(std::env::current_exe()?).args([url, &shelves]).stdout(Stdio::piped()).spawn()?)
}

/// Every line of a process is about so many buyers more.
fn watch(mut process: Child, bar: &ProgressBar) -> Result<()> {
    let lines = process.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
    for line in lines {
        bar.inc(line?.parse()?);
    }
    if process.wait()?.success() { Ok(()) } else { Err("a process of the shop failed".into()) }
}

/// What each of the processes does.
async fn serve_buyers(url: &str, shelves: u32) -> Result<()> {
    let (shop, locks) = (Shop::open(url).await?, leasehold::connect(url).await?);
    let order = match shelves {
        0 => Order::None,
        1 => Order::Lock(locks),
        _ => Order::Semaphore(locks.semaphore("flash-sale/shelves", shelves)?),
    };
    let buyers = stream::iter(0..BUYERS / PROCESSES).map(|_| buy(&shop, &order));
    let mut served = buyers.buffer_unordered(AT_ONCE).chunks(SERVED);
    while let Some(buyers) = served.next().await {
        let count = buyers.len();
        buyers.into_iter().collect::<Result<Vec<()>>>()?;
        println!("{count}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// What keeps buyers apart.
enum Order {
    None,
    Lock(Arc<dyn DistributedLock>),
    Semaphore(Semaphore),
}

/// A buyer who finds the shop sold out leaves. Another one waits for its turn, and looks again: others were there before.
async fn buy(shop: &Shop, order: &Order) -> Result<()> {
    if shop.stock(None).await? == 0 {
        return Ok(());
    }
    match order {
        Order::None => pay_and_take(shop, 0).await,
        Order::Lock(locks) => locks.with_lock("flash-sale/item", |_| pay_and_take(shop, 0)).await?,
        Order::Semaphore(shelves) => {
            let permit = shelves.acquire().await?;
            // Released in the background, when it is dropped.
            permit.protect(pay_and_take(shop, permit.slot().unwrap_or(0))).await?
        }
    }
}

/// Right, unless another buyer is at the same shelf at the same time.
async fn pay_and_take(shop: &Shop, shelf: u32) -> Result<()> {
    let stock = shop.stock(Some(shelf)).await?;
    if stock > 0 {
        tokio::time::sleep(PAYING).await;
        shop.set_stock(shelf, stock - 1).await?;
        shop.note_sale().await?;
    }
    Ok(())
}

/// The shop's own data: the stock of each shelf, and the sales so far.
enum Shop {
    MariaDb(MySqlPool),
    Redis(redis::aio::MultiplexedConnection),
}

impl Shop {
    async fn open(url: &str) -> Result<Self> {
        Ok(match url.strip_prefix("mariadb") {
            Some(rest) => Self::MariaDb(MySqlPool::connect(&format!("mysql{rest}?ssl-mode=DISABLED")).await?),
            None => Self::Redis(redis::Client::open(url)?.get_multiplexed_async_connection().await?),
        })
    }

    async fn stock_up(&self, shelves: u32) -> Result<()> {
        match self {
            Self::MariaDb(pool) => {
                pool.execute("CREATE TABLE IF NOT EXISTS items (shelf INT PRIMARY KEY, stock BIGINT)")
                    .await?;
                pool.execute("CREATE TABLE IF NOT EXISTS sales (id BIGINT AUTO_INCREMENT PRIMARY KEY)")
                    .await?;
                pool.execute("DELETE FROM items").await?;
                pool.execute("DELETE FROM sales").await?;
            }
            Self::Redis(connection) => {
                redis::cmd("DEL").arg("stock").exec_async(&mut connection.clone()).await?;
                redis::cmd("SET").arg("sold").arg(0).exec_async(&mut connection.clone()).await?;
            }
        }
        for shelf in 0..shelves {
            self.set_stock(shelf, ITEMS / i64::from(shelves)).await?;
        }
        Ok(())
    }

    /// The stock of one shelf, or of all.
    async fn stock(&self, shelf: Option<u32>) -> Result<i64> {
        let stocks: Vec<i64> = match (self, shelf) {
            (Self::MariaDb(pool), None) => query_scalar("SELECT stock FROM items").fetch_all(pool).await?,
            (Self::MariaDb(pool), Some(shelf)) => {
                query_scalar("SELECT stock FROM items WHERE shelf = ?").bind(shelf).fetch_all(pool).await?
            }
            (Self::Redis(connection), None) => {
                redis::cmd("HVALS").arg("stock").query_async(&mut connection.clone()).await?
            }
            (Self::Redis(connection), Some(shelf)) => {
                redis::cmd("HMGET").arg("stock").arg(shelf).query_async(&mut connection.clone()).await?
            }
        };
        Ok(stocks.into_iter().sum())
    }

    async fn set_stock(&self, shelf: u32, stock: i64) -> Result<()> {
        match self {
            Self::MariaDb(pool) => {
                query("REPLACE INTO items VALUES (?, ?)").bind(shelf).bind(stock).execute(pool).await?;
            }
            Self::Redis(connection) => {
                redis::cmd("HSET")
                    .arg("stock")
                    .arg(shelf)
                    .arg(stock)
                    .exec_async(&mut connection.clone())
                    .await?;
            }
        }
        Ok(())
    }

    async fn note_sale(&self) -> Result<()> {
        match self {
            Self::MariaDb(pool) => {
                query("INSERT INTO sales VALUES ()").execute(pool).await?;
            }
            Self::Redis(connection) => {
                redis::cmd("INCR").arg("sold").exec_async(&mut connection.clone()).await?;
            }
        }
        Ok(())
    }

    async fn sold(&self) -> Result<i64> {
        Ok(match self {
            Self::MariaDb(pool) => query_scalar("SELECT count(*) FROM sales").fetch_one(pool).await?,
            Self::Redis(connection) => {
                redis::cmd("GET").arg("sold").query_async(&mut connection.clone()).await?
            }
        })
    }
}
