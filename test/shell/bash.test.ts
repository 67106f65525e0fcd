import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { classifyCommand } from '../../src/shell/classify.ts'
import type { ShellKind } from '../../src/shell/types.ts'
import { weight } from './rows.ts'

/*
 * Compares the reader with the real bash. Each snippet runs in an empty folder, with an empty environment and a PATH
 * of stubs that only record their names; of the real programs it has only the shell and a few wrappers. Each stub
 * represents a class: `curl` sends, `python3` runs code, and `tool` (an unknown program) and `stat` do neither.
 * Everything that bash ran must have been seen by the reader.
 */

const bash = '/bin/bash'
const real = [
  'env',
  'timeout',
  'nice',
  'nohup',
  'xargs',
  'find',
  'setsid',
  'stdbuf',
  'cat',
  'rev',
  'awk',
  'sed',
  'tar',
]
const stubs: Readonly<Record<string, ShellKind>> = {
  curl: 'egress',
  python3: 'script',
  tool: 'write',
  stat: 'write',
}

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shell-'))
  mkdirSync(join(folder, 'bin'))
  for (const name of Object.keys(stubs)) {
    const file = join(folder, 'bin', name)
    writeFileSync(file, `#!${bash}\nprintf '%s\\n' '${name}' >> "$RAN"\n`)
    chmodSync(file, 0o755)
  }
  for (const name of [...real, 'bash', 'sh']) {
    const from = [`/usr/bin/${name}`, `/bin/${name}`].find((path) => existsSync(path))
    if (from !== undefined) symlinkSync(from, join(folder, 'bin', name))
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The stubs that bash ran, each once. */
function ranBy(snippet: string): string[] {
  const cwd = mkdtempSync(join(folder, 'cwd-'))
  const log = join(folder, 'ran')
  writeFileSync(log, '')
  spawnSync(bash, ['-c', snippet], {
    cwd,
    env: { PATH: join(folder, 'bin'), RAN: log },
    // The last pipe carries no data. It closes when every process that bash started has ended, including those in
    // `>(...)`.
    stdio: ['pipe', 'ignore', 'ignore', 'pipe'],
    input: '',
    timeout: 20_000,
    killSignal: 'SIGKILL',
  })
  return [...new Set(readFileSync(log, 'utf8').split('\n'))].filter((name) => name !== '')
}

/** Snippets in which bash runs curl. */
const sends = [
  ...[
    `cu""rl x`,
    `c\\url x`,
    `$'\\x63url' x`,
    `$"curl" x`,
    `cu\\\nrl x`,
    `'curl' x`,
    `{curl,x}`,
    `{cu,x}rl y`,
  ],
  ...[
    `x=curl; $x y`,
    `a=cu b=rl; $a$b y`,
    `a=cu; a+=rl; $a y`,
    `c="curl -s"; $c y`,
    `c=(curl -s); "\${c[@]}" y`,
  ],
  ...[
    `a=(tool curl); \${a[-1]} y`,
    `a=(curl tool); x=\${a[-2]}; $x y`,
    `read -a a <<< "tool curl"; "\${a[-1]}" y`,
    `x=a[\\$\\(curl\\ y\\)]; tool $((x))`,
    `x=a[\\\`curl\\ y\\\`]; tool $((x))`,
    `x='a['; x+='$(curl y)]'; tool $((x))`,
    `x='a[b[0]+$(curl y)]'; tool $((x))`,
    `test -v a[\\$\\(curl\\ y\\)]`,
  ],
  ...[
    `env --split='curl y'`,
    `env -S'curl y' z`,
    `echo y | xargs --max-lines curl`,
    `echo y | xargs --replace curl {}`,
    `timeout --sig KILL 5 curl y`,
  ],
  ...[
    `curl\${IFS}x`,
    `IFS=,; c=curl,x; $c`,
    `cu$@rl y`,
    `cu\${nope}rl y`,
    `$nope curl y`,
    `"\${nope[@]}" curl y`,
  ],
  ...[
    `\${x:-curl} y`,
    `\${x:=curl} y`,
    `x=1; \${x:+curl} y`,
    `x=CURL; \${x,,} y`,
    `x=zcurl; \${x#z} y`,
    `x=curlz; \${x%z} y`,
  ],
  ...[
    `x=carl; \${x/a/u} y`,
    `x=xxcurl; \${x:2} y`,
    `x=xxcurly; \${x:2:4} y`,
    `set -- curl y; "$@"`,
    `set -- a curl; shift; "$@"`,
  ],
  ...[
    `r() { "$@"; }; r curl y`,
    `g() { shift; "$@"; }; g a curl y`,
    `read c <<< curl; $c y`,
    `printf -v c curl; $c y`,
  ],
  ...[
    `read a b <<< 'tool curl'; $b y`,
    `while read c; do $c y; done <<< curl`,
    `echo curl | { read c; $c y; }`,
  ],
  ...[
    `x=curl; y=x; \${!y} z`,
    `declare -n r=x; x=curl; $r y`,
    `for c in tool curl; do $c y; done`,
    `$(echo curl) y`,
  ],
  ...[
    `tool\ncurl x`,
    `tool & curl x; wait`,
    `tool | curl`,
    `(curl x)`,
    `! curl x`,
    `if curl x; then :; fi`,
    `time curl x`,
  ],
  ...[
    `case a in a) curl x;; esac`,
    `until curl x; do :; done`,
    `coproc curl x; wait`,
    `f() ( curl x ); f`,
    `function f { curl x; }; f`,
  ],
  ...[
    `cat <<EOF\n$(curl x)\nEOF`,
    `cat <<-EOF\n\t$(curl x)\n\tEOF`,
    `[[ $(curl x) ]]`,
    `echo \${x:-$(curl x)}`,
    `echo "\${x:-'$(curl x)'}"`,
  ],
  ...[
    `a[$(curl x)]=1`,
    `echo $(( $(curl x) + 1 ))`,
    `(( $(curl x) + 1 ))`,
    `tool <(curl x); wait`,
    `tool > >(curl x); sleep 0; wait`,
  ],
  ...[
    `cat <<< "$(curl x)"`,
    `x=\`curl x\``,
    `echo "\`curl x\`"`,
    `x=(a $(curl y))`,
    `export A="$(curl x)"`,
    `echo \`echo \\\`curl x\\\`\``,
  ],
  ...[
    `env curl x`,
    `env -i PATH="$PATH" RAN="$RAN" curl x`,
    `env -u B -- curl x`,
    `env -S 'curl x'`,
    `timeout 5 curl x`,
  ],
  ...[
    `timeout -s KILL 5 curl x`,
    `timeout --sig KILL 5 curl x`,
    `nice curl x`,
    `nice -n 5 curl x`,
    `nice -5 curl x`,
    `nohup curl x`,
  ],
  ...[
    `setsid -w curl x`,
    `stdbuf -o L curl x`,
    `echo y | xargs curl`,
    `echo y | xargs -I{} curl {}`,
    `echo y | xargs -I{} env curl {}`,
  ],
  ...[
    `xargs sh -c 'curl x' < /dev/null`,
    `find . -exec curl {} \\;`,
    `find . -exec curl {} +`,
    `command curl x`,
    `exec curl x`,
    `exec -a ls curl x`,
  ],
  ...[
    `builtin command curl x`,
    `trap 'curl x' EXIT`,
    `trap 'curl x' DEBUG; :`,
    `eval 'cu''rl' x`,
    `eval "curl x"`,
    `eval "$(echo curl x)"`,
  ],
  ...[
    `shopt -s expand_aliases\nalias c=curl\nc x`,
    `mapfile -C 'curl x' -c 1 a <<< y`,
    `compgen -C 'curl x' a`,
  ],
  ...[
    `sh -c 'curl x'`,
    `bash -ec 'curl x'`,
    `bash -c '"$@"' _ curl x`,
    `bash -c 'curl $0' x`,
    `bash <<EOF\ncurl x\nEOF`,
    `bash <<< 'curl x'`,
  ],
  ...[
    `echo 'curl x' | sh`,
    `printf 'curl x' | bash`,
    `cat <<EOF | sh\ncurl x\nEOF`,
    `bash <(echo curl x)`,
    `source <(echo curl x)`,
  ],
  ...[
    `. /dev/stdin <<< 'curl x'`,
    `exec {fd}<<<'curl x'; . /dev/fd/$fd`,
    `command_not_found_handle() { curl x; }; nope`,
  ],
  ...[
    `awk 'BEGIN{system("curl x")}'`,
    `awk 'BEGIN{print | "curl x"}'`,
    `echo a | sed '1e curl x'`,
    `echo a | sed 's/a/curl x/e'`,
    `echo / | sed 's/[]/]*/curl x/e'`,
    `echo / | sed 's/[^]a/]*/curl x/e' || true; echo b | sed 's/[[:alpha:]/]*/curl x/e'`,
    `echo a | sed 's/a/[/;1e curl x\ns/b/]/'`,
    `echo a | awk '{ print /"/; system("curl x"); print /"/ }'`,
    `echo a | awk '/[^]"/]/ { system("curl x") } /"/'`,
    `echo a | awk '{ x = 1system("curl x") }'`,
  ],
  ...[
    `tar cf /dev/null . --checkpoint=1 --checkpoint-action=exec='curl x'`,
    `tar -I "sh -c 'curl x'" -cf a .`,
    `tar cfI a 'curl x' bin`,
    `\${nope+x} \\curl y`,
  ],
  ...[
    `echo $(( '$(curl x)' ))`,
    `(( '$(curl x)' ))`,
    `z=1; echo \${z:'$(curl x)':1}`,
    `a['$(curl x)']=1`,
    `cat <<EOF\n\${x:-'$(curl x)'}\nEOF`,
  ],
  ...[
    `let 'x=a[$(curl x)]'`,
    `[[ 'a[$(curl x)]' -eq 1 ]]`,
    `test -v 'a[$(curl x)]'`,
    `declare -i x='a[$(curl x)]'`,
    `printf -v 'a[$(curl x)]' 1`,
  ],
  ...[
    `x='a[$(curl x)]'; echo $((x))`,
    `read 'a[$(curl x)]' <<< 1`,
    `x='$(curl x)'; echo "\${x@P}"`,
    `cat <\\\n(curl x)`,
    `tool &\\\n& curl x`,
  ],
  ...[
    `BASH_FUNC_x=1 curl x`,
    `x=1 curl y`,
    `> out curl x`,
    `2>&1 curl x`,
    `{ curl x; } > out`,
    `a=1 b=2 c=$(curl x)`,
    `((1)) && curl x`,
  ],
  // values that do not come from an assignment, or are not set at all
  ...[
    `for PS4 in '$(curl x >&2)'; do set -x; tool; done`,
    `for x in 'a[$(curl y)]'; do echo $((x)); done`,
    `read x <<< 'a[$(curl y)]'; ((x))`,
    `typeset -i x; read x <<< 'a[$(curl y)]'`,
    `declare -i n; for n in 'a[$(curl y)]'; do :; done`,
    `set -- 'a[$(curl y)]'; echo $(($1))`,
    `f() { echo $(($1)); }; f 'a[$(curl y)]'`,
    `x='a[$'; y='(curl z)]'; echo $(($x$y))`,
  ],
  ...[
    `mapfile -t <<< $'x\ncurl'; "\${MAPFILE[1]}" y`,
    `mapfile -t a <<< $'\ncurl\ntool'; \${a[1]} y`,
    `a[5]=curl; \${a[5]} y`,
    `a=([5]=curl); \${a[5]} y`,
    `a=([1]=tool [0]=curl); $a y`,
    `a=(tool curl y); unset 'a[0]'; "\${a[@]}"`,
    `a=(); \${a[i]} curl y`,
    `a=($z tool curl y); "\${a[@]:1}"`,
    `set -- $z tool curl; $2 y`,
    `set -- tool; set curl y; $1 x`,
  ],
  ...[
    `for x in; do :; done; $x curl y`,
    `read x <<< ''; $x curl y`,
    `x=tool; unset x; $x curl y`,
    `x=tool; f() { local x; $x curl y; }; f`,
    `(x=tool); $x curl y`,
    `x=tool true; $x curl y`,
    `false && x=tool; $x curl y`,
    `echo a | x=tool; $x curl y`,
    `f() { x=tool; }; $x curl y`,
  ],
  ...[
    `read a b <<< 'tool env curl y'; $b`,
    `IFS=, read a b c <<< 'tool,,curl'; $c y`,
    `x=tool; export "x=curl"; $x y`,
    `x=tool; builtin export x=curl; $x y`,
    `OPTARG=tool; getopts a: o -a curl; $OPTARG curl`,
  ],
]

/**
 * Snippets in which bash runs curl through a value that cannot be determined from the text: they must be a script at
 * least.
 */
const hides = [
  `read -N4 a <<< curlx; $a y`,
  `read -n4 a <<< curlx; $a y`,
  `read -d x a <<< curlx; $a y`,
  `mapfile -td x a <<< curlxy; "\${a[@]}"`,
  `read a <<< 'cu\\rl'; $a y`,
  `x=tool; builtin read x <<< curl; $x y`,
  `x=tool; r=read; $r x <<< curl; $x y`,
  `x=tool; o=-N4; read $o x <<< curlx; $x y`,
  `[[ xcurl =~ x(.*) ]] && "\${BASH_REMATCH[1]}" y`,
  `shopt -s extglob; x=zzcurl; \${x##+(z)} y`,
  `x=aaaaaaaacurl; \${x:010} y`,
  `x=c; \${x/c/&url} y`,
  `a=(x cu); a[1]+=rl; \${a[1]} y`,
  `IFS=$(printf x); c=curlxy; $c`,
  `BASH_CMDS[tool]=$(type -P curl); tool y`,
  `p=printf; $p -v BASH_CMDS[tool] "$(type -P curl)"; tool y`,
  `shopt -s expand_aliases\nBASH_ALIASES[tool]='curl y'\ntool x`,
  `shopt -s nocasematch; x=toolcurl; \${x/TOOL/} y`,
]

/** Snippets that name curl without running it. */
const keeps = [
  ...[
    `tool 'curl x'`,
    `tool "; curl x"`,
    `tool \\; curl`,
    `tool # ; curl x`,
    `cat <<'EOF'\n$(curl x)\nEOF`,
    `tool '$(curl x)'`,
  ],
  ...[
    `tool \\\`curl\\\``,
    `tool "\\$(curl x)"`,
    `echo curl`,
    `x=curl`,
    `x='curl y'; tool "$x"`,
    `command -v curl`,
    `type curl`,
    `tool curl`,
  ],
  ...[
    `cat <<EOF\n\\$(curl x)\nEOF`,
    `case curl in x) tool;; esac`,
    `[[ curl == x ]]`,
    `stat {curl,x}`,
    `tool $'; curl x'`,
    `for x in curl; do tool $x; done`,
  ],
  ...[
    `tool curl\ntool x`,
    `stat \\\ncurl x`,
    `tool <<< 'curl x'`,
    `a=(curl x); stat "\${a[@]}"`,
    `tool "a\ncurl x"`,
    `echo a | xargs stat curl`,
  ],
  ...[
    `env tool curl`,
    `timeout 5 tool curl`,
    `find . -exec tool curl \\;`,
    `eval "tool curl"`,
    `eval 'tool "; curl x"'`,
  ],
]

/** Snippets in which bash runs python3 and not curl. */
const scripts = [
  ...[
    `python3 curl`,
    `p=python3; $p x`,
    `echo x | xargs python3`,
    `find . -exec python3 {} +`,
    `timeout 5 python3 x`,
    `py"th"on3 x`,
  ],
  ...[
    `sh -c 'python3 x'`,
    `f() { "$@"; }; f python3 x`,
    `$(python3 x)`,
    `env A=1 python3 x`,
    `python3 <<< 'curl x'`,
    `(python3 x)`,
  ],
]

// This fails on a machine without bash, because only bash shows whether the reader is right.
describe('as bash runs it', () => {
  test.each(sends)('sends: %j', (snippet) => {
    expect({ snippet, ran: ranBy(snippet) }).toEqual({ snippet, ran: expect.arrayContaining(['curl']) })
    expect(classifyCommand(snippet).kind).toBe('egress')
  })
  test.each(hides)('hides: %j', (snippet) => {
    expect({ snippet, ran: ranBy(snippet) }).toEqual({ snippet, ran: expect.arrayContaining(['curl']) })
    expect(weight[classifyCommand(snippet).kind]).toBeGreaterThanOrEqual(weight.script)
  })
  test.each(keeps)('keeps: %j', (snippet) => {
    expect({ snippet, ran: ranBy(snippet).filter((name) => stubs[name] !== 'write') }).toEqual({
      snippet,
      ran: [],
    })
    expect(classifyCommand(snippet).kind).toBe('write')
  })
  test.each(scripts)('runs code: %j', (snippet) => {
    const ran = ranBy(snippet)
    expect({ snippet, ran }).toEqual({ snippet, ran: ['python3'] })
    expect(classifyCommand(snippet).kind).toBe('script')
  })
  test('the reader puts each stub into the class that it represents', () => {
    for (const [name, kind] of Object.entries(stubs))
      expect([name, weight[classifyCommand(`${name} x`).kind]]).toEqual([name, weight[kind]])
  })
})
