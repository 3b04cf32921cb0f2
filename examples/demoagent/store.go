package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/coder/acp-go-sdk"
)

// store is a folder with a file for each session and one for the login. An empty one keeps nothing.
type store string

// plainID matches session ids that are valid file names.
var plainID = regexp.MustCompile(`^demo-[A-Z0-9]+$`)

func (d store) path(id acp.SessionId) string { return filepath.Join(string(d), string(id)+".json") }

func (d store) holds(id acp.SessionId) bool { return d != "" && plainID.MatchString(string(id)) }

// save keeps a session, in one piece or not at all: the process may be killed at any time.
func (d store) save(s *session) error {
	if !d.holds(s.id) {
		return nil
	}
	s.mu.Lock()
	data, err := json.Marshal(s.record)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return d.put(d.path(s.id), data)
}

func (d store) put(path string, data []byte) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(string(d), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (d store) load(id acp.SessionId) (record, error) {
	if !d.holds(id) {
		return record{}, unknownSession(id)
	}
	r, err := read(d.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		err = unknownSession(id)
	}
	return r, err
}

func read(path string) (r record, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

func (d store) list() ([]record, error) {
	if d == "" {
		return nil, nil
	}
	paths, err := filepath.Glob(filepath.Join(string(d), "demo-*.json"))
	if err != nil {
		return nil, err
	}
	var all []record
	for _, path := range paths {
		r, err := read(path)
		if errors.Is(err, fs.ErrNotExist) { // deleted just now
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// remove deletes a session. The error is fs.ErrNotExist for one that is not kept.
func (d store) remove(id acp.SessionId) error {
	if !d.holds(id) {
		return fs.ErrNotExist
	}
	return os.Remove(d.path(id))
}

func (d store) login() bool {
	if d == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(string(d), "login"))
	return err == nil
}

func (d store) setLogin(in bool) error {
	path := filepath.Join(string(d), "login")
	switch {
	case d == "":
		return nil
	case in:
		return d.put(path, []byte("yes\n"))
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
