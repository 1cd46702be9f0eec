//! The page in a real browser: narrow and wide, light and dark.

use super::page;
use crate::support::Place;
use crate::support::browser::Browser;

#[test]
fn page_fits_its_window_without_browser_messages() {
    let place = Place::new();
    let (file, _) = page(&place);
    for (width, scheme) in [(380, "light"), (1280, "light"), (380, "dark"), (1280, "dark")] {
        // A browser each: what it says is about this showing.
        let Some(mut browser) = Browser::start() else { return };
        browser.show(&file, width, scheme);
        let wide = browser.value("document.documentElement.scrollWidth");
        assert!(wide.as_u64().unwrap() <= u64::from(width), "{wide} pixels in {width}, {scheme}");
        let ground = browser.value("getComputedStyle(document.body).backgroundColor");
        let light = ground == "rgb(251, 250, 248)";
        assert_eq!(light, scheme == "light", "{ground}");
        let first = browser.value("document.querySelector('#answers').getBoundingClientRect().top < 900");
        assert_eq!(first, true, "the answers are on the first screen");
        for event in &browser.events {
            let method = event["method"].as_str().unwrap();
            assert!(
                !["Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"].contains(&method),
                "{event}"
            );
            if method == "Network.requestWillBeSent" {
                let url = event["params"]["request"]["url"].as_str().unwrap();
                assert!(url.starts_with("file://") || url.starts_with("data:"), "it wants {url}");
            }
        }
        assert!(browser.events.iter().any(|event| event["method"] == "Network.requestWillBeSent"));
    }
}
