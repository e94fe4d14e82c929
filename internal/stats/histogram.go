package stats

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// histogramMax is where an exported histogram ends. Fixed, so that any two have the same classes and can be added up.
const histogramMax = time.Hour

// ExportHistogram gives the whole distribution of durations as other tools read it: HdrHistogram's V2
// compressed encoding in base64, values in nanoseconds from 1 to an hour, three significant digits.
// Negative durations count as 0, longer ones as an hour. An empty sample gives "".
func ExportHistogram(ns []int64) string {
	if len(ns) == 0 {
		return ""
	}
	h := hdrhistogram.New(1, int64(histogramMax), digits)
	for _, v := range ns {
		// Inside the range by construction, so there is no error to have.
		_ = h.RecordValue(min(max(v, 0), int64(histogramMax)))
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		// It writes to memory and knows this version, so there is none to have here either; "" is what a reader is told to distrust.
		return ""
	}
	return string(text)
}
