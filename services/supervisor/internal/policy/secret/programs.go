package secret

import (
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// program describes how a program accepts secrets on its command line.
type program struct {
	// verbs: the description applies only if one of these is among the arguments. None means that it always applies.
	verbs []string
	// short are one-letter options whose value is a secret: the next word, or the rest of the word. A letter may be the
	// last of several: "-xw".
	short string
	// attached are one-letter options whose value is a secret if it is attached, and that do not use the next word.
	attached string
	// long are other options, with their dashes, whose value is a secret: the next word, the text after "=", or, if the
	// option ends with ":", the attached text.
	long []string
	// users are options whose value is a user and a password. split is the separator between them: "-u" for "-u me:x".
	users []string
	split string
	// cookies are options whose value is cookies, or the name of a file with cookies.
	cookies []string
	// sources are options whose value is the source of a secret: "pass:x" contains a secret, "file:x" does not.
	sources []string
	// operands are the positions of operands that are secrets, counted from 1 after the verb. -1 means all.
	operands []int
	// values are the letters of the options with a value, which are not operands.
	values string
	// pairs: after a verb, the word after a word that looks like the name of a secret is a secret.
	pairs bool
	// flag is a short option that is also a verb, alone or in a cluster.
	flag string
	// flags are the short options without a value that may precede an option of users in a cluster: "-sSu".
	flags string
	// after are options whose value is a name, which is followed by the value of that name.
	after []string
	// reads are the words that make the program read a secret from its standard input. A word that begins with "=" is a
	// suffix. "" means always.
	reads []string
}

// programs maps names to the known programs.
var programs = func() map[string][]program {
	m := map[string][]program{}
	add := func(names string, p program) {
		for _, n := range strings.Fields(names) {
			m[n] = append(m[n], p)
		}
	}
	words := strings.Fields

	// Databases.
	add("mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlslap mysqlcheck mysqlbinlog mysqlpump mysqlsh mariadb mariadb-dump mariadb-admin mariadb-import mariadb-check", program{attached: "p"})
	add("mycli pgcli", program{short: "p"})
	add("mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat mongotop mongofiles", program{short: "p"})
	add("cqlsh cypher-shell influx clickhouse-client rdesktop twine", program{short: "p"})
	add("redis-cli valkey-cli keydb-cli", program{short: "a"})
	add("redis-cli valkey-cli keydb-cli", program{verbs: words("auth AUTH Auth"), operands: []int{-1}})
	add("sqlcmd bcp osql isql", program{short: "P"})
	add("sqlplus expdp impdp exp imp sqlldr rman", program{users: []string{""}, split: "/"})
	add("rabbitmqctl", program{verbs: words("add_user change_password authenticate_user"), operands: []int{2}})

	add("redis-cli valkey-cli keydb-cli", program{verbs: words("requirepass masterauth REQUIREPASS MASTERAUTH"), operands: []int{1}})
	add("rabbitmqadmin mssql-cli", program{short: "pP"})

	// Files and archives.
	add("rar", program{attached: "h"})
	add("qpdf", program{verbs: words("--encrypt"), operands: []int{1, 2}})
	add("pdftk", program{long: words("input_pw owner_pw user_pw")})
	add("pdftotext pdftoppm pdfinfo pdftohtml pdfimages", program{long: words("-upw -opw")})
	add("borg cryptsetup", program{reads: words("init create repo-create change-passphrase")})
	add("7z 7za 7zz 7zr rar unrar", program{attached: "p"})
	add("zip unzip zipcloak", program{short: "P"})

	// Keys and hashes.
	add("openssl", program{sources: words("-passin -passout -pass -password -twopass -passwd"), long: words("-hmac"), reads: words("stdin")})
	add("openssl", program{verbs: words("enc"), long: words("-k -K")})
	add("openssl", program{verbs: words("passwd"), operands: []int{-1}, reads: words("-stdin")})
	add("ssh-keygen", program{short: "NP"})
	add("ssh-add", program{reads: words("-")})
	add("htpasswd", program{verbs: words("-b"), flag: "b", operands: []int{-2}})
	add("htpasswd", program{reads: words("-i -ni -in -iB -Bi")})
	add("mosquitto_passwd", program{verbs: words("-b"), operands: []int{-2}}) //nolint:misspell // its name
	add("mkpasswd wpa_passphrase", program{operands: []int{-2}, values: "mSRP"})
	add("caddy", program{verbs: words("hash-password"), long: words("--plaintext -p")})
	add("ansible-vault", program{verbs: words("encrypt_string"), operands: []int{1}, reads: words("--stdin-name")})
	add("security", program{verbs: words("add-generic-password add-internet-password unlock-keychain create-keychain set-keychain-password import export"), short: "wpP"})
	add("keytool jarsigner", program{long: words("-storepass -keypass -srcstorepass -deststorepass -srckeypass -destkeypass -new")})
	add("signtool", program{long: words("/p")})
	add("gpg gpg2", program{reads: words("--passphrase-fd")})
	add("cryptsetup kinit chpasswd smbpasswd su veracrypt", program{reads: []string{""}})
	add("sudo", program{reads: words("-S --stdin -kS -Sk -nS")})
	add("passwd", program{reads: words("--stdin -s")})
	add("pass gopass", program{verbs: words("insert"), reads: []string{""}})

	add("keyctl", program{verbs: words("add"), operands: []int{3}})
	add("passwd", program{reads: []string{""}})
	add("secret-tool kubeseal", program{reads: words("store --raw")})
	add("op lpass terraform", program{reads: words("signin login add")})
	add("circleci", program{reads: words("store-secret")})
	add("openssl", program{long: words("-psk")})

	// Networks.
	add("open", program{users: words("-u"), split: ","}) // lftp
	add("swaks", program{long: words("-ap")})
	add("ngrok", program{verbs: words("authtoken add-authtoken"), operands: []int{1}})
	add("nmcli", program{long: words("wifi-sec.psk 802-11-wireless-security.psk")})
	add("sonar-scanner mvn gradle", program{long: words("-Dsonar.login")})
	add("jq gojq jaq", program{after: words("--arg")})
	add("sshpass", program{short: "p"})
	add("plink pscp psftp putty", program{long: words("-pw")})
	add("curl", program{users: words("-u --user -U --proxy-user -E --cert"), split: ":", flags: "sSvkLfgGIijJnNOqRZaBlpM0123456#", cookies: words("-b --cookie"), long: words("--pass --proxy-pass --tlspassword --proxy-tlspassword --oauth2-bearer")})
	add("http https xh xhs", program{users: words("-a --auth"), split: ":"})
	add("wget wget2 aria2c", program{long: words("--http-passwd --ftp-passwd --proxy-passwd")})
	add("lftp", program{users: words("-u"), split: ","})
	add("ncftp ncftpput ncftpget", program{short: "p"})
	add("smbclient rpcclient smbget smbmap net nmblookup", program{users: words("-U --user"), split: "%"})
	add("xfreerdp xfreerdp3 wlfreerdp sdl-freerdp", program{long: words("/p: /gp: /pth:")})
	add("evil-winrm crackmapexec netexec nxc", program{short: "p"})
	add("ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldapcompare ldapmodrdn ldapexop", program{short: "w"})
	add("ldappasswd", program{short: "was"})
	add("mosquitto_pub mosquitto_sub mosquitto_rr ipmitool", program{short: "P"}) //nolint:misspell // their names
	add("snmpget snmpwalk snmpset snmpbulkwalk snmpbulkget snmpgetnext snmptable", program{short: "cAX"})
	add("nmcli", program{verbs: words("wifi connection con c device dev d w"), pairs: true})

	// Users.
	add("useradd usermod", program{short: "p", long: words("--password")})
	add("dscl", program{verbs: words("-passwd passwd"), operands: []int{-2}})

	// Registries and clouds.
	registries := program{verbs: words("login"), short: "p", reads: words("--password-stdin")}
	add("docker podman buildah nerdctl helm oras crane regctl skopeo img finch", registries)
	add("docker podman", program{verbs: words("secret"), reads: words("create")})
	add("skopeo buildah podman regctl crane", program{users: words("--creds --src-creds --dest-creds"), split: ":"})
	add("oc az cf ibmcloud bx doctl", program{verbs: words("login"), short: "p"})
	add("cf", program{verbs: words("auth"), operands: []int{2}})
	add("kubectl oc k", program{verbs: words("secret secrets"), long: words("--from-literal")})
	add("gh glab", program{verbs: words("auth"), reads: words("--with-token --stdin")})
	add("gh glab", program{verbs: words("secret variable"), short: "b", long: words("--body -v --value"), reads: words("set")})
	add("vault bao", program{verbs: words("login unwrap unseal"), operands: []int{-1}, reads: words("-")})
	add("vault bao", program{verbs: words("kv write"), reads: []string{"-"}})
	add("cargo", program{verbs: words("login"), operands: []int{1}, reads: []string{""}})
	add("wrangler vercel fly flyctl heroku netlify doppler", program{verbs: words("secret secrets env"), reads: words("put set add import bulk")})
	add("doppler", program{verbs: words("secrets"), pairs: true})
	add("pulumi", program{verbs: words("config"), operands: []int{3}, reads: words("--secret")})
	add("bw", program{verbs: words("login"), operands: []int{2}})
	add("bw", program{verbs: words("unlock"), operands: []int{1}})
	add("rclone", program{verbs: words("obscure"), operands: []int{1}})
	add("aws", program{verbs: words("configure"), pairs: true})
	add("aws", program{verbs: words("put-parameter"), long: words("--value")})
	add("aws gcloud", program{reads: words("--data-file=- --secret-string=file:///dev/stdin")})
	add("npm pnpm yarn bun", program{verbs: words("config set c"), pairs: true})
	add("git gcloud pip pip3 poetry composer conda bundle snap hub", program{verbs: words("config set"), pairs: true})
	add("az", program{verbs: words("secret"), long: words("--value")})
	add("az", program{verbs: words("sql mysql postgres"), short: "p"})
	add("doctl", program{verbs: words("auth"), short: "t"})
	add("netlify", program{verbs: words("env:set"), operands: []int{2}})
	add("eas", program{verbs: words("secret:create"), long: words("--value")})
	add("glab", program{verbs: words("set update"), operands: []int{2}})
	add("kubectl oc k", program{verbs: words("secret secrets"), reads: words("=/dev/stdin =-")})
	add("poetry uv", program{verbs: words("publish"), short: "pt"})
	add("dotnet", program{verbs: words("nuget"), short: "pk"})
	add("nuget", program{verbs: words("setapikey setApiKey"), operands: []int{1}})
	add("rclone", program{verbs: words("config"), pairs: true})
	add("setx set", program{verbs: []string{""}, pairs: true})
	add("etcdctl consul", program{verbs: words("put"), pairs: true})
	return m
}()

// nonRunners are programs that accept the names of other programs as arguments, but do not run them with the words after
// these.
var nonRunners = wordset.Of(`
	man which whereis type whatis apropos tldr info grep egrep fgrep rg ag ack apt apt-get dnf yum brew pacman apk dpkg rpm
	zypper pip pip3 npm pnpm yarn cargo gem go cd ls cat mkdir touch rm cp mv ln head tail less vim vi nano git make systemctl
	service pgrep pkill killall ps`)

// labels are options whose value may be equal to the name of a program.
var labels = wordset.Of("--name --hostname --network --link --container --user -u")

// accounts are programs whose -u is a user and a group.
var accounts = wordset.Of(`docker podman nerdctl docker-compose kubectl oc chown sudo su runuser setpriv chroot systemd-run gosu
	install rsync ps top id ls sort diff git`)
