//go:build amd64 || arm64

package sandbox

import "strconv"

// hostText formats an IPv4 or IPv6 address as RFC 5952 requires. It formats an IPv4-mapped IPv6 address as IPv4. (net/netip does the
// same, but makes a guard initialise twice as many packages before it starts.)
func hostText(address [16]byte, v4 bool) string {
	if mapped := [12]byte{10: 0xff, 11: 0xff}; v4 || [12]byte(address[:12]) == mapped {
		text := ""
		for i, b := range address[12:] {
			if i > 0 {
				text += "."
			}
			text += strconv.Itoa(int(b))
		}
		return text
	}
	group := func(i int) uint64 { return uint64(address[2*i])<<8 | uint64(address[2*i+1]) }
	begin, end := 8, 8 // the first of the longest runs of two or more zero groups
	for i := 0; i < 8; i++ {
		j := i
		for j < 8 && group(j) == 0 {
			j++
		}
		if j-i >= 2 && j-i > end-begin {
			begin, end = i, j
		}
		i = max(i, j-1)
	}
	text := ""
	for i := 0; i < 8; i++ {
		if i == begin {
			text += "::"
			i = end - 1
			continue
		}
		if i > 0 && i != end {
			text += ":"
		}
		text += strconv.FormatUint(group(i), 16)
	}
	return text
}
