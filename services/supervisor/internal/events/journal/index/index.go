// Package index lists and searches the files of a journal, and sums up their usage data, with an SQLite database beside
// them. The database contains only data from the files. If it is damaged, missing or of another version, the package
// makes it again.
//
// The package is separate from journal, so that a program that only writes or reads a journal does not link SQLite.
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

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

const (
	indexName = "index.db"
	// schemaVersion changes with the indexed data; an index of another version is made anew.
	schemaVersion = 3
	// maxText is the limit of a session's searchable text, in bytes.
	maxText = 256 << 10
	// busyTimeout is how long to wait for another process that has the index locked.
	busyTimeout = 5 * time.Second
)

const schema = `CREATE TABLE IF NOT EXISTS sessions (
	file TEXT PRIMARY KEY, session TEXT NOT NULL, agent TEXT NOT NULL, cwd TEXT NOT NULL, title TEXT NOT NULL,
	started INTEGER NOT NULL, ended INTEGER NOT NULL, turns INTEGER NOT NULL, frames INTEGER NOT NULL,
	lost INTEGER NOT NULL, size INTEGER NOT NULL, text TEXT NOT NULL, safe INTEGER NOT NULL, cost REAL) STRICT;
CREATE INDEX IF NOT EXISTS sessions_session ON sessions (session);
CREATE TABLE IF NOT EXISTS turns (
	file TEXT NOT NULL, quarter INTEGER NOT NULL, times BLOB NOT NULL, tokens BLOB, PRIMARY KEY (file, quarter)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS turns_quarter ON turns (quarter);
CREATE TABLE IF NOT EXISTS costs (
	file TEXT NOT NULL, quarter INTEGER NOT NULL, currency TEXT NOT NULL, amount REAL NOT NULL, PRIMARY KEY (file, quarter, currency)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS costs_quarter ON costs (quarter);`

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

// private creates a private file, or returns an error for an existing file that is not private.
func private(path string) error {
	f, err := ownfile.Append(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// List updates a folder's index and lists the sessions that match a query. If the index cannot be written, on a disk
// that is full or read-only, List makes one in memory for this call.
func List(dir string, q Query) (all []journal.Session, err error) {
	err = withCurrent(context.Background(), dir, func(x *Index) error {
		all, err = x.List(q)
		return err
	})
	return all, err
}

// Update updates a folder's index.
func Update(dir string) error {
	x, err := Open(dir)
	if err != nil {
		return err
	}
	defer x.Close()
	return x.Sync(context.Background())
}

// withCurrent calls do with a folder's updated index, or with one in memory.
func withCurrent(ctx context.Context, dir string, do func(*Index) error) error {
	if err := journal.MakeDir(dir); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	x, err := current(ctx, func() (*Index, error) { return Open(dir) })
	if err != nil && ctx.Err() == nil {
		var inMemory error
		if x, inMemory = current(ctx, func() (*Index, error) { return open(dir, "") }); inMemory != nil {
			return errors.Join(err, inMemory)
		}
		err = nil
	}
	if err != nil {
		return err
	}
	return errors.Join(do(x), x.Close())
}

// current opens and updates an index.
func current(ctx context.Context, opened func() (*Index, error)) (*Index, error) {
	x, err := opened()
	if err != nil {
		return nil, err
	}
	if err := x.Sync(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("bring the journal's index up to date: %w", err), x.Close())
	}
	return x, nil
}

// open opens an existing index, or makes it; without a path, in memory.
func open(dir, path string) (*Index, error) {
	query := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(WAL)", "synchronous(OFF)",
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

// syncBytes is how many bytes of the journal are read before the results are committed.
const syncBytes = 64 << 20

// Sync updates the index from the files. It reads only new entries, also after a call that ctx interrupted.
func (x *Index) Sync(ctx context.Context) error {
	files, err := journal.Files(x.dir, false)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(files))
	for _, path := range files {
		there[path] = true
	}
	if err := x.forget(ctx, there); err != nil {
		return err
	}
	for len(files) > 0 {
		n, err := x.readSome(ctx, files)
		if err != nil {
			return err
		}
		files = files[n:]
	}
	return nil
}

// forget removes files that no longer exist from the index.
func (x *Index) forget(ctx context.Context, there map[string]bool) error {
	return x.write(ctx, func(tx *sql.Tx) error {
		rows, err := tx.Query("SELECT file FROM sessions")
		if err != nil {
			return err
		}
		var gone []string
		for rows.Next() {
			var file string
			if err := rows.Scan(&file); err != nil {
				return errors.Join(err, rows.Close())
			}
			if !there[filepath.Join(x.dir, file)] {
				gone = append(gone, file)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		for _, file := range gone {
			if err := remove(tx, file); err != nil {
				return err
			}
		}
		return nil
	})
}

// remove removes a file from the index.
func remove(tx *sql.Tx, file string) error {
	for _, statement := range [...]string{"DELETE FROM sessions WHERE file = ?", "DELETE FROM turns WHERE file = ?", "DELETE FROM costs WHERE file = ?"} {
		if _, err := tx.Exec(statement, file); err != nil {
			return err
		}
	}
	return nil
}

// write calls do within a transaction.
func (x *Index) write(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// readSome reads the new entries of some of the files, and returns the number of these files.
func (x *Index) readSome(ctx context.Context, files []string) (n int, err error) {
	err = x.write(ctx, func(tx *sql.Tx) error {
		for read := int64(0); n < len(files) && read < syncBytes; n++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			more, err := x.readNew(tx, files[n])
			if err != nil {
				return err
			}
			read += more
		}
		return nil
	})
	return n, err
}

// readNew reads the new entries of a file, and returns their length in bytes.
func (x *Index) readNew(tx *sql.Tx, path string) (read int64, err error) {
	file, err := filepath.Rel(x.dir, path)
	if err != nil {
		return 0, err
	}
	var size int64
	err = tx.QueryRow("SELECT size FROM sessions WHERE file = ?", file).Scan(&size)
	known := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	info, err := os.Lstat(path)
	if err != nil || known && info.Size() == size {
		return 0, nil //nolint:nilerr // it was removed, or read completely
	}
	if info.Size() < size { // the file was truncated: read it again
		if err := remove(tx, file); err != nil {
			return 0, err
		}
		size = 0
	}
	return info.Size() - size, x.read(tx, path, file, size)
}

// read adds the entries of a file from an offset on to the index.
func (x *Index) read(tx *sql.Tx, path, file string, from int64) error {
	var s summary
	use := &usageOf{counted: from}
	if from > 0 {
		row := tx.QueryRow("SELECT session, agent, cwd, title, started, ended, turns, frames, lost, text, safe, cost FROM sessions WHERE file = ?", file)
		var started, ended int64
		if err := row.Scan(&s.Session.Session, &s.Agent, &s.Cwd, &s.Title, &started, &ended, &s.Turns, &s.Frames, &s.Lost, &s.text, &use.safe, &use.cost); err != nil {
			return err
		}
		s.Started, s.Ended = moment(started), moment(ended)
	}
	r, err := journal.OpenReader(path, use.safe)
	if err != nil {
		return nil // removed, or not owned by this user: it is not listed
	}
	defer r.Close()
	for err == nil {
		at := r.Offset()
		var e *journal.Entry
		if e, err = r.Next(); err == nil {
			if at >= from {
				s.fold(e)
			}
			if err := use.fold(tx, &s, file, e, at, r.Offset()); err != nil {
				return err
			}
		} else if _, bad := errors.AsType[*journal.LineError](err); bad {
			err = nil
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil // not a journal: it is not listed
	}
	if _, err = tx.Exec(`INSERT OR REPLACE INTO sessions (file, session, agent, cwd, title, started, ended, turns, frames, lost, size, text, safe, cost)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		file, s.Session.Session, s.Agent, s.Cwd, s.Title, nanos(s.Started), nanos(s.Ended), s.Turns, s.Frames, s.Lost, r.Offset(), string(s.text),
		use.safe, use.cost); err != nil {
		return err
	}
	return use.write(tx, file)
}

// Query selects sessions. Empty fields match all.
type Query struct {
	// Session is an id or its beginning, or the end of a file's name.
	Session string
	Agent   string
	// Cwd is a folder; it also matches sessions in folders below.
	Cwd string
	// Text is contained in the title or the messages.
	Text string
}

// List returns the sessions that match a query, oldest first.
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

// nanos returns a time as stored in the index. 0 is no time: a file without a line has none, and time.Time's zero value
// is out of range.
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

// like escapes text for LIKE.
func like(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}
