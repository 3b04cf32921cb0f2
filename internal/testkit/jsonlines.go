package testkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// JSONLines decodes the items of JSON lines, the output of list commands.
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
