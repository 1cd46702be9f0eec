//! A flash sale: 100 000 buyers in four processes want ten items. The shop reads its stock, takes the money, and writes the
//! stock back: two buyers in between have bought the same item. Once without a lock and once with one, on MariaDB and on
//! Redis; servers of its own, which end with it.
//!
//! `cargo run --release --example flash_sale --features full`

#![allow(clippy::print_stdout, reason = "an example talks")]

use futures_util::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use leasehold::{DistributedLock, DistributedLockExt};
use leasehold_conformance::servers::{MariaDbServer, RedisServer};
use sqlx::{Executor, MySqlPool, query, query_scalar};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const ITEMS: i64 = 10;
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
        [_, url, with_lock] => serve_buyers(url, with_lock == "with").await,
        _ => hold_sales().await,
    }
}

/// The four sales, one after the other.
async fn hold_sales() -> Result<()> {
    let redis = RedisServer::start()?;
    let mariadb = MariaDbServer::start()?;
    let at_mariadb = format!("mariadb://root@127.0.0.1:{}/{}", mariadb.port(), MariaDbServer::DATABASE);
    println!("{BUYERS} buyers in {PROCESSES} processes, {ITEMS} items");
    for (store, url) in [("MariaDB", at_mariadb), ("Redis", redis.url())] {
        for with_lock in [false, true] {
            let (sold, took) = hold_sale(&url, with_lock).await?;
            let how = if with_lock { "with the lock" } else { "without a lock" };
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
async fn hold_sale(url: &str, with_lock: bool) -> Result<(i64, Duration)> {
    let shop = Shop::open(url).await?;
    shop.stock_up().await?;
    if let Some(admin) = leasehold::connect(url).await?.admin() {
        admin.init().await?;
    }
    let bar = ProgressBar::new(BUYERS as u64)
        .with_style(ProgressStyle::with_template("{bar:40} {pos} buyers, {elapsed}")?);
    let start = Instant::now();
    let processes: Vec<Child> =
        (0..PROCESSES).map(|_| start_process(url, with_lock)).collect::<Result<_>>()?;
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

fn start_process(url: &str, with_lock: bool) -> Result<Child> {
    let how = if with_lock { "with" } else { "without" };
    Ok(Command::new(std::env::current_exe()?).args([url, how]).stdout(Stdio::piped()).spawn()?)
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
async fn serve_buyers(url: &str, with_lock: bool) -> Result<()> {
    let shop = Shop::open(url).await?;
    let locks = if with_lock { Some(leasehold::connect(url).await?) } else { None };
    let buyers = stream::iter(0..BUYERS / PROCESSES).map(|_| buy(&shop, locks.as_ref()));
    let mut served = buyers.buffer_unordered(AT_ONCE).chunks(SERVED);
    while let Some(buyers) = served.next().await {
        let count = buyers.len();
        buyers.into_iter().collect::<Result<Vec<()>>>()?;
        println!("{count}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Whoever finds the shop sold out leaves. Whoever does not takes the lock, if there is one, and looks again: others were
/// there before.
async fn buy(shop: &Shop, locks: Option<&Arc<dyn DistributedLock>>) -> Result<()> {
    if shop.stock().await? == 0 {
        return Ok(());
    }
    match locks {
        None => pay_and_take(shop).await,
        Some(locks) => locks.with_lock("flash-sale/item", |_| pay_and_take(shop)).await?,
    }
}

/// Right, unless somebody else does it at the same time.
async fn pay_and_take(shop: &Shop) -> Result<()> {
    let stock = shop.stock().await?;
    if stock > 0 {
        tokio::time::sleep(PAYING).await;
        shop.set_stock(stock - 1).await?;
        shop.note_sale().await?;
    }
    Ok(())
}

/// The shop's own data: a stock, and the sales so far.
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

    async fn stock_up(&self) -> Result<()> {
        match self {
            Self::MariaDb(pool) => {
                pool.execute("CREATE TABLE IF NOT EXISTS items (stock BIGINT)").await?;
                pool.execute("CREATE TABLE IF NOT EXISTS sales (id BIGINT AUTO_INCREMENT PRIMARY KEY)")
                    .await?;
                pool.execute("DELETE FROM items").await?;
                pool.execute("DELETE FROM sales").await?;
                pool.execute("INSERT INTO items VALUES (0)").await?;
            }
            Self::Redis(connection) => {
                redis::cmd("SET").arg("sold").arg(0).exec_async(&mut connection.clone()).await?;
            }
        }
        self.set_stock(ITEMS).await
    }

    async fn stock(&self) -> Result<i64> {
        Ok(match self {
            Self::MariaDb(pool) => query_scalar("SELECT stock FROM items").fetch_one(pool).await?,
            Self::Redis(connection) => {
                redis::cmd("GET").arg("stock").query_async(&mut connection.clone()).await?
            }
        })
    }

    async fn set_stock(&self, stock: i64) -> Result<()> {
        match self {
            Self::MariaDb(pool) => {
                query("UPDATE items SET stock = ?").bind(stock).execute(pool).await?;
            }
            Self::Redis(connection) => {
                redis::cmd("SET").arg("stock").arg(stock).exec_async(&mut connection.clone()).await?;
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
