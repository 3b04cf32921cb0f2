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

// orphanTime limits the time until orphans end after SIGKILL.
const orphanTime = 10 * time.Second

// orphanReaper adopts the processes that a killed guard or handler leaves behind, and ends them. Otherwise detached
// processes of agents and commands would become children of the system's first process, where acphost cannot find them.
// It does not end other orphans, nor processes that were below this process before, but reaps them when they end.
type orphanReaper struct {
	kill    context.Context // when it ends, processes are killed at once
	grace   time.Duration
	spare   proc.Bystanders
	log     *slog.Logger
	signals chan os.Signal
	stop    chan struct{}
	done    sync.WaitGroup
}

// openOrphanReaper returns nil if this process cannot adopt processes.
func openOrphanReaper(hurry context.Context, grace time.Duration, log *slog.Logger) *orphanReaper {
	spare, err := proc.ListBystanders()
	if err == nil {
		err = proc.Subreaper()
	}
	if err != nil {
		log.Warn("what a killed guard or handler leaves behind is not ended", "error", err)
		return nil
	}
	o := &orphanReaper{kill: hurry, grace: grace, spare: spare, log: log, signals: make(chan os.Signal, 1), stop: make(chan struct{})}
	// The kernel moves a process's children to the new parent before the old parent gets SIGCHLD.
	signal.Notify(o.signals, syscall.SIGCHLD)
	o.done.Go(func() {
		for {
			select {
			case <-o.signals:
				panics.Guard(log, "ending processes that were left behind", o.reap)()
			case <-o.stop:
				panics.Guard(log, "ending processes that were left behind", o.reap)()
				return
			}
		}
	})
	return o
}

// close ends the remaining orphans. Agents and handlers have ended before.
func (o *orphanReaper) close() {
	if o == nil {
		return
	}
	signal.Stop(o.signals)
	close(o.stop)
	o.done.Wait()
}

func (o *orphanReaper) orphans() ([]int, error) { return proc.Orphans(o.spare) }

// reap ends and reaps the adopted processes.
func (o *orphanReaper) reap() {
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

// end ends the adopted processes. Their grace ends with kill.
func (o *orphanReaper) end(ctx context.Context) error {
	if o.kill.Err() == nil {
		gently, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(o.kill, cancel)()
		if err := proc.End(gently, o.orphans, o.grace); err == nil || o.kill.Err() == nil {
			return err
		}
	}
	return proc.End(ctx, o.orphans, 0)
}
