//! `report.html`: what a replay found, for people, in one file that needs nothing else: no script, no
//! network. Light or dark as the reader's system is.

use std::fmt::Write;
use std::time::Duration;

use plan::pool::PROMISE;

use super::ettr::{Ettr, measure};
use super::findings::{Case, Curves, Findings, Repairs, Span, Spread};
use super::plot::{self, Axis, Series, alone, bars, escape, lines};
use super::report::{actions, stages};
use super::text::words;
use super::trace::days;

const STYLE: &str = include_str!("report.css");

impl Findings {
    /// The page.
    pub fn html(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.page(&mut out);
        out
    }

    /// The plots that tell most, as files of their own: name and SVG.
    pub fn plots(&self) -> [(&'static str, String); 2] {
        [("spares.svg", alone(&self.availability())), ("out.svg", alone(&self.nodes_out()))]
    }

    fn page(&self, out: &mut String) -> std::fmt::Result {
        let title = format!("Replay of {:.0} days on {} servers", self.days(), self.servers);
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title><style>{}{STYLE}</style></head><body>\n<h1>{title}</h1>\n",
            plot::STYLE
        )?;
        self.summary(out)?;
        let jobs = measure(&self.pool());
        figure(out, &self.availability(), &self.availability_text())?;
        figure(
            out,
            &self.nodes_out(),
            "Servers out of service: as the trace recorded it, and as the replay had them, which adds the time to prove a machine before it is trusted again.",
        )?;
        figure(out, &self.swaps(), &self.swaps_text())?;
        if !jobs.is_empty() {
            figure(out, &ettr_plot(&jobs), &ettr_text(&jobs))?;
            self.jobs(out, &jobs)?;
        }
        self.classes(out)?;
        self.basis(out)?;
        out.push_str("</body></html>\n");
        Ok(())
    }

    fn summary(&self, out: &mut String) -> std::fmt::Result {
        let (capacity, curves, verdict) = (self.capacity(), self.curves(), &self.verdict);
        let repairs = match self.repairs {
            Repairs::Recorded => {
                "Repairs as recorded: no server came back before the trace says so. The fleet could only notice, try its ladder in vain, swap, examine and take back."
            }
            Repairs::Ladder => {
                "Repairs by the ladder: which step cures which fault is assumed, so no figure here is a finding about real hardware."
            }
        };
        let assumed = self.cases.len() - self.as_recorded();
        write!(
            out,
            "<p>{repairs} Of {} faults, {} show a symptom that the trace names; for {assumed} it is assumed. Everything but the faults and their ends is simulated.</p>\n<dl>",
            self.cases.len(),
            self.as_recorded()
        )?;
        let swap = Spread::of(self.warm_swaps());
        let time = |s: Option<f64>| s.map_or_else(|| "-".to_owned(), seconds);
        for (name, value, note) in [
            (
                "promised capacity",
                percent(capacity.promised),
                format!("of the time, spares: {}", capacity.spares),
            ),
            (
                "in service",
                percent(capacity.in_service),
                format!("on average; {} as recorded", percent(capacity.recorded)),
            ),
            (
                "spares it takes",
                count(Curves::needed(&curves.recorded)),
                format!(
                    "for {:.1} % of the time; {} as replayed; Poisson says {}",
                    PROMISE * 100.0,
                    count(Curves::needed(&curves.measured)),
                    count(curves.independent()),
                ),
            ),
            (
                "swap, P50",
                time(swap.p50),
                format!("P99 {}, where a spare was there", time(swap.p99)),
            ),
            (
                "actions",
                self.actions.len().to_string(),
                format!(
                    "{} on no evidence, {} against a person, {} over budget",
                    verdict.no_evidence, verdict.against_person, verdict.over_budget
                ),
            ),
            (
                "people's acts",
                self.people.len().to_string(),
                "simulated: cables, parts, breakers, servers kept for a look".to_owned(),
            ),
        ] {
            write!(
                out,
                "<div><dt>{name}</dt><dd>{value}</dd><dd class=\"note\">{note}</dd></div>"
            )?;
        }
        out.push_str("</dl>\n");
        Ok(())
    }

    fn availability(&self) -> String {
        let curves = self.curves();
        let points = |curve: &[f64]| {
            curve.iter().enumerate().map(|(spares, share)| (spares as f64, *share)).collect()
        };
        let series = |class, name: &str, curve: &[f64]| Series {
            class,
            name: name.to_owned(),
            points: points(curve),
            steps: true,
        };
        let most = curves.recorded.len().max(curves.measured.len()).max(curves.poisson.len());
        let x = Axis { label: "spares", from: 0.0, to: most as f64, write: |v| format!("{v:.0}") };
        let y = Axis { label: "share of time covered", from: 0.0, to: 1.0, write: percent_round };
        let all = [
            series("a", "as recorded", &curves.recorded),
            series("b", "as replayed", &curves.measured),
            series("c", "if independent (Poisson)", &curves.poisson),
        ];
        lines("How often so many spares suffice", &x, &y, &all, (704.0, 200.0))
    }

    fn availability_text(&self) -> String {
        let curves = self.curves();
        let independent = curves.independent();
        let with = independent.and_then(|spares| curves.recorded.get(spares)).copied();
        let mean = curves.mean();
        format!(
            "The share of time in which so many spares cover everything that is out. {mean:.2} servers were out on average. If outages were independent, {} spares would keep the promise for {:.1} % of the time; as they come in waves, those keep it for {}, and it takes {} ({} with the time that proving adds).",
            count(independent),
            PROMISE * 100.0,
            percent(with.unwrap_or(1.0)),
            count(Curves::needed(&curves.recorded)),
            count(Curves::needed(&curves.measured)),
        )
    }

    fn nodes_out(&self) -> String {
        let (recorded, replayed) = (counts(&self.recorded), counts(&self.out));
        let most = recorded.iter().chain(&replayed).map(|(_, out)| *out).fold(1.0, f64::max);
        // Room for the names of the lines.
        let most = most * 1.25;
        let x = Axis {
            label: "day",
            from: 0.0,
            to: self.days().max(1e-3),
            write: |v| format!("{v:.0}"),
        };
        let y = Axis { label: "servers out", from: 0.0, to: most, write: |v| format!("{v:.0}") };
        let series = |class, name: &str, points| Series {
            class,
            name: name.to_owned(),
            points,
            steps: true,
        };
        let all = [series("b", "as replayed", replayed), series("a", "as recorded", recorded)];
        lines("Servers out over time", &x, &y, &all, (704.0, 24.0))
    }

    fn swaps(&self) -> String {
        const BOUNDS: [u64; 10] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
        let mut groups: Vec<(String, Vec<f64>)> =
            BOUNDS.iter().map(|bound| (format!("≤ {bound}"), vec![0.0])).collect();
        groups.push(("more".to_owned(), vec![0.0]));
        for swap in self.warm_swaps() {
            let bin = BOUNDS.iter().position(|bound| swap <= Duration::from_secs(*bound));
            if let Some((_, counts)) = groups.get_mut(bin.unwrap_or(BOUNDS.len())) {
                counts.iter_mut().for_each(|count| *count += 1.0);
            }
        }
        let most = groups.iter().flat_map(|(_, counts)| counts).fold(1.0, |a: f64, b| a.max(*b));
        let y = Axis { label: "swaps", from: 0.0, to: most * 1.08, write: |v| format!("{v:.0}") };
        bars(
            "How long swaps took",
            &y,
            &groups,
            &[("a", "")],
            "seconds from going out to being replaced",
        )
    }

    fn swaps_text(&self) -> String {
        let waited = self.cases.iter().filter(|case| !case.warm && case.out.is_some()).count();
        format!(
            "From a node's going out of service to another's having taken its place, where a proven spare was there: the time that decisions take, each request to the API taking as long as the table below says; what a job feels besides stands under gang jobs. {waited} nodes went out when none was; they wait for the next machine to come back, and are not in this plot."
        )
    }

    fn jobs(&self, out: &mut String, jobs: &[Ettr]) -> std::fmt::Result {
        out.push_str("<table><caption>Where the time of gang jobs went</caption><thead><tr><th>GPUs</th><th>jobs</th><th>stopped</th><th>progress</th><th>formula</th><th>checkpoints</th><th>lost work</th><th>swaps</th><th>no spare</th><th>restarts</th><th>checkpoint every</th></tr></thead><tbody>");
        for job in jobs {
            let lost = &job.lost;
            write!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                job.gpus,
                job.jobs,
                job.interruptions,
                percent(job.measured),
                percent(job.formula),
                percent(lost.checkpoints),
                percent(lost.work),
                percent(lost.swap),
                percent(lost.no_spare),
                percent(lost.restart),
                words(Duration::from_secs(job.checkpoint_every))
            )?;
        }
        out.push_str("</tbody></table>\n");
        Ok(())
    }

    fn classes(&self, out: &mut String) -> std::fmt::Result {
        out.push_str("<table><caption>Faults by kind; times are P50 / P90 / P99</caption><thead><tr><th>fault</th><th>n</th><th>assumed</th><th>noticed after</th><th>out, then replaced after</th><th>ladder, then triage after</th><th>back after its end</th><th>action</th><th>unsolved</th></tr></thead><tbody>");
        for (kind, cases) in self.by_words() {
            let stages = stages(&cases);
            let warm: Vec<Duration> =
                cases.iter().filter(|case| case.warm).filter_map(|case| case.swap()).collect();
            let tried: Vec<String> =
                actions(&cases).iter().map(|(action, count)| format!("{action} {count}")).collect();
            let assumed = |case: &&&Case| case.basis == plan::catalogue::Basis::Assumed;
            write!(
                out,
                "<tr><td>{}: {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&kind.class),
                escape(&kind.desc),
                cases.len(),
                cases.iter().filter(assumed).count(),
                spread(&stages.noticed),
                spread(&Spread::of(warm)),
                spread(&stages.handed_over),
                spread(&stages.returned),
                escape(&tried.join(", ")),
                cases.iter().filter(|case| self.unsolved(case)).count()
            )?;
        }
        out.push_str("</tbody></table>\n");
        Ok(())
    }

    fn basis(&self, out: &mut String) -> std::fmt::Result {
        out.push_str("<table><caption>What every figure rests on</caption><thead><tr><th>delay</th><th>time</th><th>source</th></tr></thead><tbody>");
        for figure in &self.delays {
            let time = seconds(figure.seconds);
            let (name, source) = (escape(&figure.name), escape(&figure.source));
            write!(out, "<tr><td>{name}</td><td>{time}</td><td class=\"text\">{source}</td></tr>")?;
        }
        out.push_str("</tbody></table>\n");
        if !self.warnings.is_empty() {
            write!(
                out,
                "<details><summary>{} warnings about the trace</summary><ul>",
                self.warnings.len()
            )?;
            for warning in &self.warnings {
                write!(out, "<li>line {}: {}</li>", warning.line, escape(&warning.what))?;
            }
            out.push_str("</ul></details>\n");
        }
        Ok(())
    }
}

fn figure(out: &mut String, svg: &str, text: &str) -> std::fmt::Result {
    writeln!(out, "<figure>{svg}<figcaption>{}</figcaption></figure>", escape(text))
}

fn ettr_plot(jobs: &[Ettr]) -> String {
    let least = jobs.iter().map(|job| job.measured.min(job.formula)).fold(1.0, f64::min);
    let from = ((least - 0.05) * 10.0).floor().clamp(0.0, 9.0) / 10.0;
    let y =
        Axis { label: "share of time with progress", from, to: 1.0, write: |v| format!("{v:.3}") };
    let groups: Vec<(String, Vec<f64>)> = jobs
        .iter()
        .map(|job| (format!("{} GPUs", job.gpus), vec![job.measured, job.formula]))
        .collect();
    bars("Effective training time", &y, &groups, &[("a", "measured"), ("c", "formula")], "")
}

fn ettr_text(jobs: &[Ettr]) -> String {
    let (write, restart) =
        jobs.first().map_or((0, 0), |job| (job.checkpoint_cost, job.restart_cost));
    format!(
        "Effective training time of gang jobs that fill the pool, one size at a time: a checkpoint costs {write} s at the interval of Young and Daly, a restart {restart} s. The formula takes failures for independent and a spare for granted."
    )
}

/// How many spans there are at a time, at each time at which that changes.
fn counts(spans: &[Span]) -> Vec<(f64, f64)> {
    let mut turns: Vec<(Duration, i32)> =
        spans.iter().flat_map(|(from, to)| [(*from, 1), (*to, -1)]).collect();
    turns.sort_unstable();
    let mut out = 0;
    let mut points = vec![(0.0, 0.0)];
    for (at, turn) in turns {
        out += turn;
        points.push((days(at), f64::from(out)));
    }
    points
}

/// A number of spares.
fn count(spares: Option<usize>) -> String {
    spares.map_or_else(|| "more".to_owned(), |spares| spares.to_string())
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn percent_round(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn seconds(seconds: f64) -> String {
    words(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

fn spread(spread: &Spread) -> String {
    match (spread.p50, spread.p90, spread.p99) {
        (Some(a), Some(b), Some(c)) => format!("{} / {} / {}", seconds(a), seconds(b), seconds(c)),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::sample;

    #[test]
    fn the_page_stands_alone_and_is_well_formed() {
        let page = sample().html();
        for outside in ["<script", "http://", "https://", "url(", "@import", "src="] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("GPU Lost &lt;&amp;&gt;"));
        assert_eq!(page.matches("<svg").count(), 3, "four would need a pool of 8");
        for tag in ["svg", "figure", "table", "tr", "td", "th", "div", "dl", "text", "title", "ul"]
        {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert_eq!(page, sample().html());
    }
}
