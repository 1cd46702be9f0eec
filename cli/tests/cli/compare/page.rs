//! The page as a document: its figures are those of the data, it wants nothing from anywhere, and it can be read.

use super::{between, fixture, page, shown};
use crate::support::Place;
use serde_json::Value;
use std::collections::HashSet;

/// The rows of a table of the page: of each field the exact figure, if there is one, or its text.
fn rows(page: &str, table: &str) -> Vec<Vec<String>> {
    let begin = page.find(&format!("<table id=\"{table}\"")).unwrap_or_else(|| panic!("no {table}"));
    let table = page[begin..].split("</table>").next().unwrap();
    let body = table.split("<tbody>").nth(1).unwrap();
    let field = |html: &str| match html.split("<data value=\"").nth(1) {
        Some(rest) => rest.split('"').next().unwrap().to_owned(),
        None => text(html),
    };
    let rows = body.split("<tr>").skip(1);
    rows.map(|row| row.split_inclusive("</t").filter(|part| part.contains("<t")).map(field).collect())
        .collect()
}

/// Without tags.
fn text(html: &str) -> String {
    let mut out = String::new();
    let mut inside = !html.trim_start().starts_with('<') && html.contains('>');
    for c in html.trim_end_matches("</t").chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out.trim().to_owned()
}

fn is(figure: &str, value: &Value) -> bool {
    match value.as_f64() {
        Some(value) => figure.parse::<f64>().is_ok_and(|figure| figure.to_bits() == value.to_bits()),
        None => figure == "–",
    }
}

#[test]
fn every_figure_of_the_page_is_that_of_the_data() {
    let (data, (_, page)) = (fixture(), page(&Place::new()));
    let tables = [
        ("hand-over-table", "hand-over@", 3),
        ("alone-table", "pairs@", 2),
        ("kinds-table", "reads@", 2),
        ("kinds-table", "permits@", 2),
    ];
    for (table, kind, first) in tables {
        let shown = rows(&page, table);
        let mut matched = 0;
        for (store, row) in rows_of(&data, kind) {
            let (rate, latency) = (&row["per_second"], &row["latency_us"]);
            let expected = [
                &rate["median"],
                &rate["min"],
                &rate["max"],
                &latency["p50"],
                &latency["p99"],
                &latency["max"],
            ];
            let is_it = |fields: &&Vec<String>| {
                fields[0] == store
                    && fields[first..].iter().zip(expected).all(|(figure, value)| is(figure, value))
            };
            assert!(shown.iter().any(|fields| is_it(&fields)), "{store} {row} is not in {shown:?}");
            matched += 1;
        }
        assert!(matched > 2, "{kind}");
    }
    let at_rest = rows(&page, "at-rest-table");
    for (store, row) in rows_of(&data, "waiting@") {
        let shown =
            at_rest.iter().any(|fields| fields[0] == store && is(&fields[2], &row["server_commands"]));
        assert!(shown, "{store} {row} is not in {at_rest:?}");
    }
    for (store, row) in rows_of(&data, "held@") {
        let shown =
            at_rest.iter().any(|fields| fields[0] == store && is(&fields[5], &row["held"]["bytes_each"]));
        assert!(shown, "{store} {row} is not in {at_rest:?}");
    }
}

/// The rows of all stores whose names begin so.
fn rows_of<'a>(data: &'a Value, kind: &str) -> Vec<(&'a str, &'a Value)> {
    let stores = data["stores"].as_array().unwrap().iter();
    let all = stores.flat_map(|store| {
        let rows = store["speed"]["rows"].as_array().unwrap().iter();
        rows.map(|row| (store["name"].as_str().unwrap(), row))
    });
    all.filter(|(_, row)| row["row"].as_str().unwrap().starts_with(kind)).collect()
}

#[test]
fn every_matrix_field_shows_an_outcome_or_a_promise() {
    let (data, (_, page)) = (fixture(), page(&Place::new()));
    let matrix = rows(&page, "faults-table");
    let fields = |fault: &str| {
        let row = matrix.iter().find(|row| row[0] == fault).unwrap_or_else(|| panic!("no {fault}"));
        row[1..].to_vec()
    };
    // memory, sqlite, redis, redis-sentinel, zookeeper, mariadb: the seventh store was not there.
    let killed = fields("holder killed");
    assert_eq!(killed.len(), data["stores"].as_array().unwrap().len() - 1);
    assert!(killed[0].contains('–') && killed[1].contains("next holder after"), "{killed:?}");
    assert!(killed[5].contains('†'), "nothing was tried on the last one: {killed:?}");
    let fail_over = fields("fail over");
    assert!(fail_over[3].contains("broken: two ") && fail_over[3].contains("promised: fenced only"));
    assert!(fields("quorum lost")[3].contains("not judged"));
    assert!(fields("record deleted")[2].contains("promised: fenced only"), "more than promised is told, too");
}

#[test]
fn every_link_leads_somewhere_and_every_anchor_is_there_once() {
    let (_, page) = page(&Place::new());
    let ids = between(&page, " id=\"", "\"");
    let unique: HashSet<&&str> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "an anchor is there twice");
    let links = between(&page, "href=\"#", "\"");
    assert!(links.len() > 5, "{} links", links.len());
    for link in links {
        assert!(unique.contains(&link), "#{link} leads nowhere");
    }
}

#[test]
fn page_has_no_script_and_requests_nothing() {
    let (_, page) = page(&Place::new());
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
    assert!(page.contains(&format!("http-equiv=\"Content-Security-Policy\" content=\"{policy}\"")));
    for forbidden in
        ["<script", "javascript:", "http://", "https://", "@import", "url(", " onload", "<iframe"]
    {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("Redis 7.0.15 &lt;on&gt;") && !page.contains("<on>"), "a server's words are text");
}

#[test]
fn every_chart_has_its_title_and_stands_before_its_table() {
    let (_, page) = page(&Place::new());
    let pictures = page.matches("role=\"img\"").count();
    assert!(pictures > 10, "{pictures} pictures");
    for picture in page.split("role=\"img\"").skip(1) {
        assert!(picture.starts_with(" aria-label=\""), "a picture without a name");
        assert!(picture.split("</svg>").next().unwrap().contains("<title>"), "a picture without a title");
    }
    for section in between(&page, "<section ", "</section>").iter().filter(|text| text.contains("<figure")) {
        assert!(section.rfind("<figure").unwrap() < section.find("<table").unwrap(), "{}", &section[..40]);
    }
}

#[test]
fn text_can_be_read_on_its_ground_in_both_schemes() {
    let (_, page) = page(&Place::new());
    let style = page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
    let schemes = between(style, ":root {", "}");
    assert_eq!(schemes.len(), 3, "light, dark and print");
    for scheme in schemes {
        for ground in ["ground", "surface"] {
            for ink in ["ink", "muted", "good", "careful", "bad"] {
                let contrast = contrast(&colour(scheme, ink), &colour(scheme, ground));
                assert!(contrast >= 4.5, "--{ink} on --{ground} has {contrast:.2}");
            }
        }
    }
}

fn colour(scheme: &str, name: &str) -> [f64; 3] {
    let value = scheme.split(&format!("--{name}: #")).nth(1).unwrap_or_else(|| panic!("no --{name}"));
    [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&value[at..at + 2], 16).unwrap()) / 255.0)
}

/// By WCAG 2.2, section 1.4.3.
fn contrast(one: &[f64; 3], other: &[f64; 3]) -> f64 {
    let luminance = |colour: &[f64; 3]| {
        let linear = colour.map(|c| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn answers_follow_from_the_data() {
    let (_, page) = page(&Place::new());
    let answers = between(&page, "<dl class=\"answers\">", "</dl>")[0];
    let of = |question: &str| {
        let answer = answers.split("<dt>").find(|part| part.starts_with(question));
        text(&format!("<x>{}", answer.unwrap_or_else(|| panic!("no {question} in {answers}"))))
    };
    let fastest = of("fastest hand-over?");
    let (best, apart) = fastest.split_once("one host only").unwrap();
    assert!(best.contains("redis") && apart.contains("sqlite") && !fastest.contains("memory"), "{fastest}");
    assert!(!answers.contains("redis-sentinel"), "what is broken is the answer to nothing");
    assert!(of("one owner while servers fail over?").contains("zookeeper"));
    assert!(of("told of a loss how soon?").contains('‡'), "what is declared has its sign");
    let _ = shown(&["--format", "html"]).code(0);
}
