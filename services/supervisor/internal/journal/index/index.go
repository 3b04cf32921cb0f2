// Package index lists and searches the files of a journal, with an SQLite database beside them. The database holds nothing
// that the files do not hold. If it is damaged, missing or of another version, the package makes it again.
//
// The package is apart from journal, so that a program that only writes or reads a journal does not link SQLite.
package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/acphost/acphost/services/supervisor/internal/journal"
	"github.com/acphost/acphost/services/supervisor/internal/ownfile"
)

const (
	indexName = "index.db"
	// schemaVersion changes with what is indexed; an index of another version is made anew.
	schemaVersion = 2
	// maxText is how much of a session's text can be searched, in bytes.
	maxText = 256 << 10
	// indexPatience is how long another process that has the index is waited for.
	indexPatience = 5 * time.Second
)

const schema = `CREATE TABLE IF NOT EXISTS sessions (
	file TEXT PRIMARY KEY, session TEXT NOT NULL, agent TEXT NOT NULL, cwd TEXT NOT NULL, title TEXT NOT NULL,
	started INTEGER NOT NULL, ended INTEGER NOT NULL, turns INTEGER NOT NULL, frames INTEGER NOT NULL,
	lost INTEGER NOT NULL, size INTEGER NOT NULL, text TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS sessions_session ON sessions (session);`

// Index is the index of one folder. Safe for concurrent use.
type Index struct {
	dir string
	db  *sql.DB
}

// Open opens a folder's index. An index that is missing, damaged or of another version is made anew.
func Open(dir string) (*Index, error) {
	if err := journal.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	path := filepath.Join(dir, indexName)
	if err := private(path); err != nil {
		return nil, fmt.Errorf("journal index: %w", err)
	}
	x, err := open(dir, path)
	if err == nil {
		return x, nil
	}
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		if rerr := os.Remove(path + end); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			return nil, fmt.Errorf("journal index: it is damaged (%w) and cannot be removed: %w", err, rerr)
		}
	}
	if err := private(path); err != nil {
		return nil, fmt.Errorf("journal index: %w", err)
	}
	if x, err = open(dir, path); err != nil {
		return nil, fmt.Errorf("journal index %s: %w", path, err)
	}
	return x, nil
}

// private makes a private file, or refuses what stands there.
func private(path string) error {
	f, err := ownfile.Append(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// List brings a folder's index up to date and lists the sessions that a query wants. Where the index cannot be written, on a disk that
// is full or read-only, one is made in memory for this call: what is recorded can be read all the same.
func List(dir string, q Query) ([]journal.Session, error) {
	if err := journal.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var all []journal.Session
	x, err := Open(dir)
	if err == nil {
		all, err = x.upToDate(q)
	}
	if err == nil {
		return all, nil
	}
	x, inMemory := open(dir, "")
	if inMemory == nil {
		all, inMemory = x.upToDate(q)
	}
	if inMemory != nil {
		return nil, errors.Join(err, inMemory)
	}
	return all, nil
}

// Update brings a folder's index up to date.
func Update(dir string) error {
	x, err := Open(dir)
	if err != nil {
		return err
	}
	defer x.Close()
	return x.Sync()
}

// upToDate reads the files, lists and closes.
func (x *Index) upToDate(q Query) (all []journal.Session, err error) {
	defer func() { err = errors.Join(err, x.Close()) }()
	if err := x.Sync(); err != nil {
		return nil, fmt.Errorf("bring the journal's index up to date: %w", err)
	}
	return x.List(q)
}

// open opens an index that is there, or makes it; without a path, in memory.
func open(dir, path string) (*Index, error) {
	query := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", indexPatience.Milliseconds()), "journal_mode(WAL)", "synchronous(OFF)",
	}, "_txlock": {"immediate"}}
	at := &url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	if path == "" {
		at.Opaque = ":memory:"
	}
	db, err := sql.Open("sqlite", at.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	x := &Index{dir: dir, db: db}
	if err := x.prepare(); err != nil {
		_ = db.Close()
		return nil, err
	}
	return x, nil
}

// prepare checks the index, and makes its table in an empty one.
func (x *Index) prepare() error {
	var version int
	if err := x.db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version != 0 && version != schemaVersion {
		return fmt.Errorf("it has version %d", version)
	}
	if version == 0 {
		if _, err := x.db.Exec(schema + fmt.Sprintf("PRAGMA user_version = %d;", schemaVersion)); err != nil {
			return err
		}
	}
	var found string
	if err := x.db.QueryRow("PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return errors.New(found)
	}
	return nil
}

// Close closes the index.
func (x *Index) Close() error { return x.db.Close() }

// Sync brings the index to what the files hold. What was read before is not read again.
func (x *Index) Sync() error {
	files, err := journal.Files(x.dir, false)
	if err != nil {
		return err
	}
	tx, err := x.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	known := map[string]int64{}
	rows, err := tx.Query("SELECT file, size FROM sessions")
	if err != nil {
		return err
	}
	for rows.Next() {
		var file string
		var size int64
		if err := rows.Scan(&file, &size); err != nil {
			return errors.Join(err, rows.Close())
		}
		known[file] = size
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, path := range files {
		file, err := filepath.Rel(x.dir, path)
		if err != nil {
			return err
		}
		size, ok := known[file]
		delete(known, file)
		info, err := os.Lstat(path)
		if err != nil || ok && info.Size() == size {
			continue
		}
		if info.Size() < size { // the file was cut: it is read anew
			size = 0
		}
		if err := x.read(tx, path, file, size); err != nil {
			return err
		}
	}
	for file := range known { // those that are gone
		if _, err := tx.Exec("DELETE FROM sessions WHERE file = ?", file); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// read folds what a file has from an offset on into its row.
func (x *Index) read(tx *sql.Tx, path, file string, from int64) error {
	var s summary
	if from > 0 {
		row := tx.QueryRow("SELECT session, agent, cwd, title, started, ended, turns, frames, lost, text FROM sessions WHERE file = ?", file)
		var started, ended int64
		if err := row.Scan(&s.Session.Session, &s.Agent, &s.Cwd, &s.Title, &started, &ended, &s.Turns, &s.Frames, &s.Lost, &s.text); err != nil {
			return err
		}
		s.Started, s.Ended = moment(started), moment(ended)
	}
	r, err := journal.OpenReader(path, from)
	if err != nil {
		return nil // it is gone, or no file of ours: it is not listed
	}
	defer r.Close()
	for err == nil {
		var e *journal.Entry
		if e, err = r.Next(); err == nil {
			s.fold(e)
		} else if _, bad := errors.AsType[*journal.LineError](err); bad {
			err = nil
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil // it is no journal: it is not listed
	}
	_, err = tx.Exec(`INSERT OR REPLACE INTO sessions (file, session, agent, cwd, title, started, ended, turns, frames, lost, size, text)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		file, s.Session.Session, s.Agent, s.Cwd, s.Title, nanos(s.Started), nanos(s.Ended), s.Turns, s.Frames, s.Lost, r.Offset(), string(s.text))
	return err
}

// Query says which sessions are wanted. What is empty does not matter.
type Query struct {
	// Session is an id or how one begins, or the end of a file's name.
	Session string
	Agent   string
	// Cwd is a folder; those below it count too.
	Cwd string
	// Text stands somewhere in the title or what was said.
	Text string
}

// List returns the sessions that a query wants, oldest first.
func (x *Index) List(q Query) ([]journal.Session, error) {
	where, args := []string{"1"}, []any{}
	and := func(cond string, values ...any) {
		where = append(where, "("+cond+")")
		args = append(args, values...)
	}
	if q.Session != "" {
		and(`session = ? OR session LIKE ? ESCAPE '\' OR file LIKE ? ESCAPE '\'`, q.Session, like(q.Session)+"%", "%-"+like(q.Session)+journal.Suffix)
	}
	if q.Agent != "" {
		and("agent = ?", q.Agent)
	}
	if q.Cwd != "" {
		and(`cwd = ? OR cwd LIKE ? ESCAPE '\'`, q.Cwd, like(strings.TrimSuffix(q.Cwd, "/"))+"/%")
	}
	if q.Text != "" {
		and(`title LIKE ? ESCAPE '\' OR text LIKE ? ESCAPE '\'`, "%"+like(q.Text)+"%", "%"+like(q.Text)+"%")
	}
	rows, err := x.db.Query(`SELECT file, session, agent, cwd, title, started, ended, turns, frames, lost, size FROM sessions WHERE `+ //nolint:gosec // the parts are constants; values are bound
		strings.Join(where, " AND ")+" ORDER BY started, file", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []journal.Session
	for rows.Next() {
		var s journal.Session
		var started, ended int64
		if err := rows.Scan(&s.File, &s.Session, &s.Agent, &s.Cwd, &s.Title, &started, &ended, &s.Turns, &s.Frames, &s.Lost, &s.Bytes); err != nil {
			return nil, err
		}
		s.Started, s.Ended = moment(started), moment(ended)
		s.File = filepath.Join(x.dir, s.File)
		s.Live = journal.Live(s.File)
		all = append(all, s)
	}
	return all, rows.Err()
}

// nanos is a time as the index has it. 0 is no time: a file without a line has none, and time.Time's zero is out of range.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func moment(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// like is text as LIKE takes it literally.
func like(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}
