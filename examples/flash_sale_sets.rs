//! A flash sale of bundles: each buyer wants two of three articles, in any order, and each article has a stock of its own. The
//! shop reads both stocks, takes the money, and writes both back. Once without locks, and once with the locks of both
//! articles at once: nothing is oversold, and no two buyers wait for each other.
//!
//! `cargo run --example flash_sale_sets`; with another store: `cargo run --example flash_sale_sets --features redis -- redis://127.0.0.1`.

#![allow(clippy::print_stdout, reason = "an example talks")]

use futures_util::{StreamExt, TryStreamExt, stream};
use leasehold::{DistributedLock, DistributedLockExt, Result};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

const ARTICLES: [&str; 3] = ["lamp", "table", "chair"];
const STOCK: u32 = 10;
const BUYERS: usize = 300;
/// Buyers who are in the shop at the same time.
const AT_ONCE: usize = 32;
/// How long it takes to pay.
const PAYING: Duration = Duration::from_millis(2);

/// The stock of each article, and how many of it were sold.
#[derive(Default)]
struct Shop {
    stock: [AtomicU32; 3],
    sold: [AtomicU32; 3],
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = leasehold::connect(&url).await?;
    println!("{BUYERS} buyers of two articles each, {STOCK} of each article");
    for with_locks in [false, true] {
        let (shop, start) = (Shop::default(), Instant::now());
        shop.stock.iter().for_each(|stock| stock.store(STOCK, SeqCst));
        let buyers = stream::iter(0..BUYERS).map(|buyer| buy(&shop, buyer, with_locks.then_some(&*locks)));
        buyers.buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        let sold: Vec<u32> = shop.sold.iter().map(|sold| sold.load(SeqCst)).collect();
        let how = if with_locks { "with the locks of both" } else { "without locks" };
        println!("{how}: {sold:?} sold of {STOCK} each ({:.1} s)", start.elapsed().as_secs_f64());
        assert!(!with_locks || sold.iter().all(|sold| *sold <= STOCK), "oversold under locks");
    }
    locks.close().await
}

/// One buyer takes the lamp and the table, the next one the chair and the table, and so on: the orders cross.
async fn buy(shop: &Shop, buyer: usize, locks: Option<&dyn DistributedLock>) -> Result<()> {
    let (one, two) = (buyer % 3, (buyer + 1 + buyer / 3 % 2) % 3);
    let Some(locks) = locks else {
        pay_and_take(shop, one, two).await;
        return Ok(());
    };
    let bundle = locks.acquire_all([ARTICLES[one], ARTICLES[two]]).await?;
    bundle.protect(pay_and_take(shop, one, two)).await?;
    bundle.release().await
}

/// Right, unless somebody else does it at the same time.
async fn pay_and_take(shop: &Shop, one: usize, two: usize) {
    let stocks = [one, two].map(|article| (article, shop.stock[article].load(SeqCst)));
    if stocks.iter().all(|(_, stock)| *stock > 0) {
        tokio::time::sleep(PAYING).await;
        for (article, stock) in stocks {
            shop.stock[article].store(stock - 1, SeqCst);
            shop.sold[article].fetch_add(1, SeqCst);
        }
    }
}
