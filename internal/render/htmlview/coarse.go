package htmlview

import (
	"slices"

	"github.com/drainproof/drainproof/internal/record"
)

// coarse is a series in wider buckets, as rates a second. A few requests a second make a comb of narrow buckets, in which nobody sees a course.
type coarse struct {
	// Bucket is how wide they are; Edges are where they begin, and where the last one ends.
	Bucket int64     `json:"bucket"`
	Edges  []int64   `json:"edges"`
	Lines  []linePer `json:"lines"`
}

// linePer is one line of rates, a value a bucket.
type linePer struct {
	Name  string    `json:"name"`
	Rates []float64 `json:"rates"`
}

// widths are how many buckets may be put together: multiples at which the trigger stays an edge.
var widths = []int64{1, 2, 5, 10, 20, 50, 100}

// widthFor picks the smallest that gives want requests a bucket on average.
func widthFor(s record.Series, want float64) int64 {
	total := int64(0)
	for _, n := range s.Sent {
		total += n
	}
	mean := float64(total) / float64(len(s.Sent))
	for _, w := range widths {
		if mean*float64(w) >= want || w*8 > int64(len(s.Sent)) {
			return w
		}
	}
	return widths[len(widths)-1]
}

// coarsen puts buckets together; those at the ends, which are covered in part only, are rated by the part.
func coarsen(s record.Series, width int64, names []string, lists [][]int64) coarse {
	c := coarse{Bucket: width * s.BucketNs, Edges: []int64{}, Lines: make([]linePer, len(lists))}
	end := s.FromTNs + int64(len(s.Sent))*s.BucketNs
	for t := s.FromTNs; t < end; t = next(t, c.Bucket) {
		c.Edges = append(c.Edges, t)
	}
	c.Edges = append(c.Edges, end)
	for i, list := range lists {
		rates := make([]float64, len(c.Edges)-1)
		for k := range rates {
			from, to := (c.Edges[k]-s.FromTNs)/s.BucketNs, (c.Edges[k+1]-s.FromTNs)/s.BucketNs
			sum := int64(0)
			for _, n := range list[from:to] {
				sum += n
			}
			rates[k] = float64(sum) * 1e9 / float64(c.Edges[k+1]-c.Edges[k])
		}
		c.Lines[i] = linePer{names[i], rates}
	}
	return c
}

// next is the first multiple of width after t.
func next(t, width int64) int64 {
	n := t / width * width
	if t < 0 && n > t {
		n -= width
	}
	return n + width
}

// most is the largest rate of all lines.
func (c coarse) most() float64 {
	most := 0.0
	for _, l := range c.Lines {
		if len(l.Rates) > 0 {
			most = max(most, slices.Max(l.Rates))
		}
	}
	return most
}

// ratesOf are requests and failures a second.
func ratesOf(s record.Series) coarse {
	return coarsen(s, widthFor(s, 5), []string{"sent", "failed"}, [][]int64{s.Sent, s.Failed})
}

// answersOf are the answers a second of each instance.
func answersOf(s record.Series) coarse {
	names, lists := []string{}, [][]int64{}
	for _, i := range s.Instances {
		names, lists = append(names, i.Instance), append(lists, i.Answered)
	}
	return coarsen(s, widthFor(s, 8*float64(max(1, min(len(lists), 8)))), names, lists)
}
