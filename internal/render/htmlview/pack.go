package htmlview

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
)

// vectors are the numbers of an island, list after list, as little-endian bytes. The script reads them where they stand: taking a hundred
// thousand failures apart as JSON would cost more than drawing them.
type vectors struct{ data []byte }

// vector is one list: where it begins among the bytes and what its numbers are, or the one value that all have.
type vector struct {
	At int `json:"at"`
	// Type is u8, u16, u32 or f64, which is exact up to 2^53: 104 days in nanoseconds.
	Type string `json:"type,omitempty"`
	// Null: there may be nulls. In f64 they are NaN; else they are zero, and every other number is one more than it was.
	Null bool   `json:"null,omitempty"`
	All  bool   `json:"all,omitempty"`
	One  *int64 `json:"one,omitempty"`
}

// number adds n numbers.
func number[N int | int64](v *vectors, n int, at func(int) N) vector {
	return v.add(n, func(i int) (int64, bool) { return int64(at(i)), true }, false)
}

// optional adds n numbers that may be null.
func optional[N int | int64](v *vectors, n int, at func(int) *N) vector {
	return v.add(n, func(i int) (int64, bool) {
		if p := at(i); p != nil {
			return int64(*p), true
		}
		return 0, false
	}, true)
}

func (v *vectors) add(n int, at func(int) (value int64, known bool), null bool) vector {
	list, known := make([]int64, n), make([]bool, n)
	same, least, most := true, int64(0), int64(0)
	for i := range list {
		list[i], known[i] = at(i)
		same = same && list[i] == list[0] && known[i] == known[0]
		least, most = min(least, list[i]), max(most, list[i])
	}
	if same && n > 0 {
		if !known[0] {
			return vector{All: true}
		}
		return vector{All: true, One: &list[0]}
	}
	x := vector{At: len(v.data), Type: "f64", Null: null}
	switch {
	case least < 0:
	case most < math.MaxUint8:
		x.Type = "u8"
	case most < math.MaxUint16:
		x.Type = "u16"
	case most < math.MaxUint32:
		x.Type = "u32"
	}
	for i, value := range list {
		if null && known[i] && x.Type != "f64" {
			value++
		}
		switch {
		case x.Type == "u8":
			v.data = append(v.data, byte(value))
		case x.Type == "u16":
			v.data = binary.LittleEndian.AppendUint16(v.data, uint16(value))
		case x.Type == "u32":
			v.data = binary.LittleEndian.AppendUint32(v.data, uint32(value))
		case known[i]:
			v.data = binary.LittleEndian.AppendUint64(v.data, math.Float64bits(float64(value)))
		default:
			v.data = binary.LittleEndian.AppendUint64(v.data, math.Float64bits(math.NaN()))
		}
	}
	v.data = pad(v.data)
	return x
}

// wordSize is what every list is aligned to.
const wordSize = 8

func pad(b []byte) []byte { return append(b, make([]byte, (wordSize-len(b)%wordSize)%wordSize)...) }

// pack gives an island as the page holds it: the length of its JSON, the JSON and the vectors, all of it gzip, as base64. A
// browser looks at every byte of a page several times before it shows it, and that costs far more than unpacking.
func pack(d island, v *vectors) (string, error) {
	head, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, part := range [][]byte{binary.LittleEndian.AppendUint64(nil, uint64(len(head))), pad(head), v.data} {
		if _, err := z.Write(part); err != nil {
			return "", err
		}
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}
