package testkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// JSONLines decodes the items of JSON lines, as lists of commands print them.
func JSONLines[T any](text []byte) (list []T, err error) {
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var item T
		switch err := d.Decode(&item); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return list, err
		}
		list = append(list, item)
	}
}
