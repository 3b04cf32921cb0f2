package host

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/proc"
)

// orphanTime bounds how long orphans may take to end after SIGKILL.
const orphanTime = 10 * time.Second

// orphanage takes in what a killed guard or handler leaves behind: agents' and commands' processes that have detached
// themselves would otherwise become children of the first process of the system, where nobody knows them. It ends them.
// What is neither an agent's nor a command's lives on, as does what was below this process before, and is reaped when it ends.
type orphanage struct {
	hurry   context.Context // when it has ended, processes are killed at once
	grace   time.Duration
	spare   proc.Bystanders
	log     *slog.Logger
	signals chan os.Signal
	stop    chan struct{}
	done    sync.WaitGroup
}

// openOrphanage returns nil where processes cannot be adopted.
func openOrphanage(hurry context.Context, grace time.Duration, log *slog.Logger) *orphanage {
	spare, err := proc.TakeBystanders()
	if err == nil {
		err = proc.Subreaper()
	}
	if err != nil {
		log.Warn("what a killed guard or handler leaves behind is not ended", "error", err)
		return nil
	}
	o := &orphanage{hurry: hurry, grace: grace, spare: spare, log: log, signals: make(chan os.Signal, 1), stop: make(chan struct{})}
	// The kernel gives a process's children away before it tells the parent that the process has ended.
	signal.Notify(o.signals, syscall.SIGCHLD)
	o.done.Go(func() {
		for {
			select {
			case <-o.signals:
				panics.Guard(log, "ending processes that were left behind", o.look)()
			case <-o.stop:
				panics.Guard(log, "ending processes that were left behind", o.look)()
				return
			}
		}
	})
	return o
}

// close ends what there still is. Agents and handlers have ended before.
func (o *orphanage) close() {
	if o == nil {
		return
	}
	signal.Stop(o.signals)
	close(o.stop)
	o.done.Wait()
}

func (o *orphanage) orphans() ([]int, error) { return proc.Orphans(o.spare) }

// look ends and reaps whoever was adopted.
func (o *orphanage) look() {
	orphans, err := o.orphans()
	if err != nil {
		o.log.Debug("cannot look for what a killed guard or handler left behind", "error", err)
	}
	if len(orphans) > 0 {
		o.log.Warn("ending processes of agents or commands that a killed guard or handler left behind", "pids", orphans)
		ctx, cancel := context.WithTimeout(context.Background(), o.grace+orphanTime)
		defer cancel()
		if err := o.end(ctx); err != nil {
			o.log.Error("processes of agents or commands may be left", "error", err)
		}
	}
	if _, err := proc.ReapAdopted(proc.Started); err != nil {
		o.log.Warn("ended processes are left as zombies", "error", err)
	}
}

// end ends what was adopted, with a grace that lasts until hurry ends.
func (o *orphanage) end(ctx context.Context) error {
	if o.hurry.Err() == nil {
		gently, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(o.hurry, cancel)()
		if err := proc.End(gently, o.orphans, o.grace); err == nil || o.hurry.Err() == nil {
			return err
		}
	}
	return proc.End(ctx, o.orphans, 0)
}
