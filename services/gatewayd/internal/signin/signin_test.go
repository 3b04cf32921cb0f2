package signin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/services/gatewayd/internal/auth"
)

var firefox = Browser{Address: "192.0.2.7", Agent: "Firefox"}

// anybody accepts every browser.
func anybody() error { return nil }

// ask plays a browser that asks until it is in, its code ends, or ctx ends.
func ask(ctx context.Context, d *Broker, s Secrets) (*Session, Secrets) {
	for ctx.Err() == nil {
		if got, in, err := d.Claim(s, firefox, anybody); got != nil || err != nil {
			return got, in
		}
		time.Sleep(2 * time.Second) // of the bubble's clock
	}
	return nil, Secrets{}
}

func TestLook_RejectsMalformedCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := New(nil).AwaitBrowser(t.Context(), "abc"); !errors.Is(err, ErrNoBrowser) || time.Since(began) > 0 {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestCode_SignsBrowserInOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(nil)
		s, code, _ := d.Begin()
		type in struct {
			session *Session
			secrets Secrets
		}
		done := make(chan in, 1)
		go func() { session, secrets := ask(t.Context(), d, s); done <- in{session, secrets} }()
		b, err := d.AwaitBrowser(t.Context(), " "+strings.ToUpper(strings.ReplaceAll(code, "-", " ")))
		if err != nil || b != firefox {
			t.Fatalf("the browser is %v (%v)", b, err)
		}
		if got, _, _ := d.Claim(s, firefox, anybody); got != nil {
			t.Fatal("a browser is in before a person has confirmed")
		}
		session, err := d.Confirm(t.Context(), code, "approver", time.Hour)
		if err != nil || session.Role != "approver" || session.Browser != firefox {
			t.Fatalf("%+v (%v)", session, err)
		}
		got := <-done
		caller, _, ok := d.Find(got.secrets)
		if !ok || caller.Role != "approver" || caller.ID != "console "+session.ID || !caller.Valid() {
			t.Errorf("the browser is %+v, %v", caller, ok)
		}
		if again, _, _ := d.Claim(s, firefox, anybody); again != nil {
			t.Error("the code was accepted twice")
		}
		if _, err := d.Confirm(t.Context(), code, "operator", time.Hour); !errors.Is(err, ErrUsed) {
			t.Errorf("the code was confirmed twice: %v", err)
		}
		for name, wrong := range map[string]Secrets{
			"the cookie alone":           {Cookie: got.secrets.Cookie},
			"the page's alone":           {Page: got.secrets.Page},
			"both in the other's place":  {Cookie: got.secrets.Page, Page: got.secrets.Cookie},
			"those of before":            s,
			"the cookie and another one": {Cookie: got.secrets.Cookie, Page: s.Page},
			"nothing":                    {},
		} {
			if _, _, ok := d.Find(wrong); ok {
				t.Errorf("%s is enough", name)
			}
		}
		time.Sleep(time.Hour)
		if _, _, ok := d.Find(got.secrets); ok || caller.Valid() {
			t.Error("a browser stays signed in for longer than the session's lifetime")
		}
	})
}

func TestCode_BelongsToOneBrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(nil)
		s, code, _ := d.Begin()
		other, _, _ := d.Begin()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _, _ = ask(ctx, d, s) }()
		if _, err := d.AwaitBrowser(t.Context(), code); err != nil {
			t.Fatal(err)
		}
		cancel() // the browser asks no more
		<-done
		confirmed := make(chan error, 1)
		go func() { _, err := d.Confirm(t.Context(), code, "viewer", time.Hour); confirmed <- err }()
		synctest.Wait()
		for name, wrong := range map[string]Secrets{
			"another browser":            other,
			"another's cookie":           {Cookie: other.Cookie, Page: s.Page},
			"another's page":             {Cookie: s.Cookie, Page: other.Page},
			"no cookie":                  {Page: s.Page},
			"a later end":                {Cookie: s.Cookie, Page: "AAAB" + s.Page[4:]},
			"the code in a secret's way": {Cookie: code, Page: code},
		} {
			if got, _, _ := d.Claim(wrong, firefox, anybody); got != nil {
				t.Errorf("%s was accepted", name)
			}
		}
		if err := <-confirmed; !errors.Is(err, ErrNoBrowser) {
			t.Errorf("the browser was away, and confirming returned %v", err)
		}
		if got, _, _ := d.Claim(s, firefox, anybody); got != nil {
			t.Error("a browser was accepted after its person was notified that it was not")
		}
	})
}

func TestCode_Expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(nil)
		s, code, expires := d.Begin()
		if left := time.Until(expires); left > CodeLifetime || left < CodeLifetime-time.Second {
			t.Errorf("it is good for %s", left)
		}
		time.Sleep(CodeLifetime)
		looked := make(chan error, 1)
		go func() { _, err := d.AwaitBrowser(t.Context(), code); looked <- err }()
		synctest.Wait()
		if got, _, err := d.Claim(s, firefox, anybody); got != nil || !errors.Is(err, ErrExpired) {
			t.Errorf("after its time: %v, %v", got, err)
		}
		if err := <-looked; !errors.Is(err, ErrNoBrowser) {
			t.Errorf("after its time: %v", err)
		}
		if len(d.confirmations) != 0 {
			t.Error("something is kept of it")
		}
	})
}

func TestBegin_KeepsNoState(t *testing.T) {
	d := New(nil)
	shown := map[string]bool{}
	for range 10_000 {
		s, code, _ := d.Begin()
		if shown[code] {
			t.Fatalf("the code %s arrived twice", code)
		}
		shown[code] = true
		if got, _, err := d.Claim(s, firefox, anybody); got != nil || err != nil {
			t.Fatal("an unconfirmed code is accepted, or has expired")
		}
	}
	if len(d.confirmations)+len(d.sessions) != 0 {
		t.Errorf("%d offers and %d sessions are kept", len(d.confirmations), len(d.sessions))
	}
}

func TestDesk_LimitsCodesAndBrowsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(nil)
		errs := make(chan error, maxConfirmations+1)
		for range maxConfirmations + 1 {
			go func() {
				_, code, _ := d.Begin()
				_, err := d.AwaitBrowser(t.Context(), code)
				errs <- err
			}()
		}
		full := 0
		for range maxConfirmations + 1 {
			if errors.Is(<-errs, ErrTooManyCodes) {
				full++
			}
		}
		if full != 1 {
			t.Errorf("%d of %d codes found no room", full, maxConfirmations+1)
		}
		caller := auth.Caller{ID: "token x", Role: "viewer", Valid: func() bool { return true }}
		for i := range maxSessions + 1 {
			if _, _, err := d.SignIn(caller, firefox); (err != nil) != (i == maxSessions) {
				t.Fatalf("browser %d: %v", i, err)
			}
		}
	})
}

func TestSession_EndsWithToken(t *testing.T) {
	d := New(nil)
	valid := true
	session, secrets, err := d.SignIn(auth.Caller{ID: "token x", Role: "operator", Valid: func() bool { return valid }}, firefox)
	if err != nil || session.Role != "operator" || session.Method != "token x" {
		t.Fatalf("%+v (%v)", session, err)
	}
	caller, _, ok := d.Find(secrets)
	if !ok || !caller.Valid() {
		t.Fatal("it is not in")
	}
	valid = false
	if _, _, ok := d.Find(secrets); ok || caller.Valid() || len(d.Sessions()) != 0 {
		t.Error("it stays in without its token")
	}
}

func TestSignOut_EndsSession(t *testing.T) {
	d := New(nil)
	session, secrets, err := d.SignIn(auth.Caller{ID: "token x", Role: "viewer", Valid: func() bool { return true }}, firefox)
	if err != nil {
		t.Fatal(err)
	}
	caller, _, _ := d.Find(secrets)
	if d.End("no such id") || !d.End(session.ID) || d.End(session.ID) {
		t.Error("the wrong one was signed out")
	}
	if _, _, ok := d.Find(secrets); ok || caller.Valid() {
		t.Error("it is still in")
	}
}

func TestConfirm_RequiresRoleAndLifetime(t *testing.T) {
	d := New(nil)
	for _, c := range []struct {
		role     string
		lifetime time.Duration
		want     error
	}{{"gateway", time.Hour, ErrRole}, {"", time.Hour, ErrRole}, {"viewer", 0, ErrLifetime}, {"viewer", MaxLifetime + 1, ErrLifetime}} {
		if _, err := d.Confirm(t.Context(), "aaaaa-aaaaa", c.role, c.lifetime); !errors.Is(err, c.want) {
			t.Errorf("%q for %s: %v", c.role, c.lifetime, err)
		}
	}
}

func TestConfirm_RejectsUsedCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(nil)
		s, code, _ := d.Begin()
		signIn := func(role string) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go ask(ctx, d, s)
			if _, err := d.AwaitBrowser(ctx, code); err != nil {
				return err
			}
			_, err := d.Confirm(ctx, code, role, time.Hour)
			return err
		}
		if err := signIn("viewer"); err != nil {
			t.Fatal(err)
		}
		if err := signIn("operator"); !errors.Is(err, ErrUsed) {
			t.Errorf("once more: got %v, want ErrUsed", err)
		}
		if got, _, err := d.Claim(s, firefox, anybody); got != nil || !errors.Is(err, ErrExpired) {
			t.Errorf("the browser once more: got %v, %v", got, err)
		}
		if all := d.Sessions(); len(all) != 1 || all[0].Role != "viewer" {
			t.Errorf("signed in: %+v", all)
		}
	})
}

func TestLook_ReportsRejectedBrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(nil)
		s, code, _ := d.Begin()
		agent := errors.New("an agent shows it")
		result := make(chan error, 1)
		go func() {
			_, err := d.AwaitBrowser(t.Context(), code)
			result <- err
		}()
		synctest.Wait()
		if got, _, err := d.Claim(s, firefox, func() error { return agent }); got != nil || !errors.Is(err, agent) {
			t.Errorf("the browser: got %v, %v", got, err)
		}
		if err := <-result; !errors.Is(err, agent) {
			t.Errorf("the person receives %v", err)
		}
		if _, err := d.Confirm(t.Context(), code, "operator", time.Hour); err == nil {
			t.Error("it is confirmed all the same")
		}
	})
}
