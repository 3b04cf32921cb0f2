package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/gatewayd/internal/notices"
)

// grace is the default time that a question waits before a notice is sent. Most questions are answered within it by a
// person who watches the console or an editor, and a few seconds more do not matter to a person who is away.
const grace = 5 * time.Second

// noticeFlags are the flags for notices.
type noticeFlags struct {
	webhook, secret, ntfy, token string
	desktop, details             bool
	grace                        time.Duration
}

func (f *noticeFlags) define(set *flag.FlagSet) {
	set.StringVar(&f.webhook, "notices-webhook", "", "send notices of waiting questions as a POST of JSON to this `URL`; @FILE: to the URL in a file")
	set.StringVar(&f.secret, "notices-webhook-secret", "", "the `FILE` with the secret that signs the POST (Acphost-Signature)")
	set.StringVar(&f.ntfy, "notices-ntfy", "", "send notices of waiting questions by ntfy to the `URL` of a topic, https://ntfy.sh/TOPIC; @FILE: to the URL in a file")
	set.StringVar(&f.token, "notices-ntfy-token", "", "the `FILE` with the access token of ntfy")
	set.BoolVar(&f.desktop, "notices-desktop", false, "show notices of waiting questions on this user's desktop, with notify-send or osascript")
	set.BoolVar(&f.details, "notices-details", false, "include the agent's text in notices; other people may read them, at ntfy or on a locked screen")
	set.DurationVar(&f.grace, "notices-grace", grace, "send no notice of a question that is answered within this `TIME`")
}

func (f *noticeFlags) on() bool { return f.webhook != "" || f.ntfy != "" || f.desktop }

func (f *noticeFlags) check() error {
	switch {
	case f.secret != "" && f.webhook == "":
		return errors.New("--notices-webhook-secret is for --notices-webhook")
	case f.token != "" && f.ntfy == "":
		return errors.New("--notices-ntfy-token is for --notices-ntfy")
	case f.grace < 0:
		return errors.New("--notices-grace: expected a time that is not negative")
	}
	return nil
}

// channels returns the configured channels.
func (f *noticeFlags) channels() (all []notices.Channel, err error) {
	add := func(flag string, c notices.Channel, failed error) {
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", flag, failed))
		}
		all = append(all, c)
	}
	if f.webhook != "" {
		c, err := notices.NewWebhook(f.webhook, f.secret)
		add("--notices-webhook", c, err)
	}
	if f.ntfy != "" {
		c, err := notices.NewNtfy(f.ntfy, f.token)
		add("--notices-ntfy", c, err)
	}
	if f.desktop {
		c, err := notices.NewDesktop()
		add("--notices-desktop", c, err)
	}
	return all, err
}

// notify sends notices of questions, if the flags configure a channel, until stop is called.
func notify(ctx context.Context, f *flags, base string, supervisor *client.Client, log *slog.Logger) (stop func(), err error) {
	if !f.notices.on() {
		return func() {}, nil
	}
	channels, err := f.notices.channels()
	if err != nil {
		return nil, err
	}
	w := notices.New(notices.Options{
		Watch: supervisor.WatchApprovals, Channels: channels, Base: base, Grace: f.notices.grace, Details: f.notices.details, Logger: log,
	})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer panics.Recover(log, "sending notices")
		w.Run(ctx)
	}()
	for _, c := range channels {
		log.Info("notices of waiting questions are sent", "by", c.String(), "links lead to", base)
	}
	return func() { cancel(); <-done }, nil
}
