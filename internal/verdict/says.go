package verdict

import (
	"fmt"
	"strconv"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/stats"
)

// unlikely is the p from which a difference is called more than chance: the usual one in twenty.
const unlikely = 0.05

// says puts into words what a comparison shows. What is counted comes first, then what the trials as a whole allow, last what the pooled
// counts alone would say.
func says(c Comparison) []string {
	list := []string{counted(c)}
	switch {
	case c.Before.Failed == 0 && c.After.Failed == 0:
		return append(list, "Neither side lost a request, so no difference was seen; that does not show that there is none.")
	case c.Before.Trials == 1 || c.After.Trials == 1:
		list = append(list, fewTrials(c))
	case c.TrialsP == nil:
		list = append(list, fmt.Sprintf("Trial by trial nothing was computed: the exact test takes up to %d trials.", stats.MaxRankSum))
	default:
		list = append(list, byTrial(c))
	}
	return append(list, pooled(c))
}

func counted(c Comparison) string {
	return fmt.Sprintf("Failed since the trigger: %s before, %s after.", c.Before.counts(), c.After.counts())
}

func (s Side) counts() string {
	return fmt.Sprintf("%s of %s requests (%s) in %s", figure.Count(s.Failed), figure.Count(s.Requests), figure.Share(s.share()), figure.Plural(s.Trials, "trial"))
}

// fewTrials is for a side with one trial, from which no spread is known.
func fewTrials(c Comparison) string {
	seen := "The counts differ"
	if c.Before.ShareEach == c.After.ShareEach {
		seen = "The counts do not differ"
	}
	return fmt.Sprintf("%s, but one trial shows only itself: how much trials of the same configuration vary is not known. Measure each side at least %d times.", seen, enough())
}

// enough is the smallest number of trials a side that can show a difference at all.
func enough() int {
	n := 2
	for stats.SmallestRankSum(n, n) >= unlikely {
		n++
	}
	return n
}

// byTrial reads the test that takes a trial as one observation.
func byTrial(c Comparison) string {
	test := fmt.Sprintf("Trial by trial (exact rank-sum test, %d v %d): p %s", c.Before.Trials, c.After.Trials, probability(*c.TrialsP))
	switch {
	case *c.TrialsP < unlikely:
		return test + ". " + direction(c) + " by more than chance between trials would give."
	case c.TrialsLeastP >= unlikely:
		return fmt.Sprintf("%s. With %d v %d trials the smallest possible is p %s, so even a clear difference cannot be told from chance%s. Measure each side at least %d times.",
			test, c.Before.Trials, c.After.Trials, probability(c.TrialsLeastP), apart(c), enough())
	}
	return test + ". Chance between trials could give such a difference: none is shown, nor that there is none."
}

// direction compares the shares of the trials; where their medians are one, the whole.
func direction(c Comparison) string {
	before, after := c.Before.ShareEach.Median, c.After.ShareEach.Median
	if before == after {
		before, after = c.Before.share(), c.After.share()
	}
	switch {
	case after < before:
		return "Fewer requests failed after,"
	case after > before:
		return "More requests failed after,"
	}
	return "The trials differ,"
}

func (s Side) share() float64 { return float64(s.Failed) / float64(s.Requests) }

// apart says so where no trial of one side lies among those of the other.
func apart(c Comparison) string {
	switch b, a := c.Before.ShareEach, c.After.ShareEach; {
	case a.Max < b.Min:
		return ", although every trial after lost less than every trial before"
	case a.Min > b.Max:
		return ", although every trial after lost more than every trial before"
	}
	return ""
}

func pooled(c Comparison) string {
	return fmt.Sprintf("All requests pooled (Fisher's exact test): p %s. This takes requests as independent, which those of one trial are not: they fail together. Read it as what the counts could show at best.", probability(c.PooledP))
}

// probability prints a p with the digits that are worth reading, behind its sign.
func probability(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return "= " + strconv.FormatFloat(p, 'g', 2, 64)
}
