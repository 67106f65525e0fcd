import { list } from '../types.ts'
/* Programs that run code, with the arguments that alone only print a text: `-v` of `node`, but not of `python`. */

/** The text of their `-c` is read. */
export const shells: ReadonlySet<string> = new Set(
  list('sh bash dash zsh ksh ksh93 mksh ash rbash yash posh fish csh tcsh osh'),
)
/** Their code is not read. */
const otherShells = list('pwsh powershell cmd nu elvish xonsh')

const common = list('--version --help -V')
export const interpreters: ReadonlyMap<string, readonly string[]> = new Map([
  ...list('node nodejs bun deno ruby php perl lua luajit java').map((name): [string, string[]] => [
    name,
    [...common, '-v', '-h', '-version', 'version', 'help'],
  ]),
  ...otherShells.map((name): [string, string[]] => [name, [...common, '-h']]),
  ...list(`
    python pypy ipython bpython jupyter perl6 raku irb rscript r julia octave matlab tclsh wish expect groovy scala
    kotlin jshell clojure clj bb elixir iex erl escript ghci runghc runhaskell ocaml ocamlrun utop racket guile sbcl clisp ecl
    chicken-csi csi gosh ts-node tsx esno vite-node zx nodemon osascript qjs d8 jsc
    psql mysql mariadb sqlite3 sqlite mongosh mongo cqlsh clickhouse-client isql sqlcmd sqlplus usql duckdb pgcli mycli litecli
    spark-submit spark-shell pyspark sparkr spark-sql sbatch srun salloc qsub bsub condor_submit
    gdb lldb m4 wasmtime wasmer wine mono ansible ansible-playbook ansible-console
    rails streamlit uvicorn gunicorn flask celery hypercorn pm2 forever supervisord
    wolframscript maxima sage tmuxinator gnuplot jrunscript salt salt-call knife-exec osqueryi
    claude codex gemini copilot aider opencode cursor-agent goose llm sgpt aichat openai
    vbscript cscript wscript mshta rundll32 regsvr32 autoit ahk`).map((name): [string, string[]] => [
    name,
    [...common, '-h'],
  ]),
])

/** Their first argument is the script that they run. */
export const runsFiles: ReadonlySet<string> = new Set(
  list(`node nodejs bun deno ruby php perl lua luajit java pwsh powershell nu python pypy ipython perl6 raku rscript julia
    octave tclsh wish expect groovy scala elixir escript ts-node tsx esno vite-node zx nodemon osascript qjs racket guile
    wasmtime ansible-playbook`),
)

const files = (
  ...rows: readonly (readonly [programs: string, files: string])[]
): ReadonlyMap<string, readonly string[]> =>
  new Map(
    rows.flatMap(([programs, names]) => programs.split(' ').map((each) => [each, names.split(' ')] as const)),
  )

/**
 * Files of the folder that say what a program runs, though the command does not name them. The hook sends them under
 * the name of the program (`FOLDER_FILES` in `adapters/countersign/hook/surroundings.py` has the same table).
 */
export const folderFiles = files(
  ['make gmake', 'GNUmakefile makefile Makefile'],
  ['npm npx yarn pnpm bun', 'package.json'],
  ['just', 'justfile Justfile .justfile'],
  ['task', 'Taskfile.yml Taskfile.yaml'],
  ['docker podman', 'Dockerfile docker-compose.yml docker-compose.yaml compose.yml compose.yaml'],
  ['docker-compose podman-compose', 'docker-compose.yml docker-compose.yaml compose.yml compose.yaml'],
  ['rake', 'Rakefile'],
  ['gulp', 'gulpfile.js'],
  ['grunt', 'Gruntfile.js'],
  ['inv invoke', 'tasks.py'],
  ['fab', 'fabfile.py'],
  ['cargo', 'build.rs'],
  ['pip pip3', 'setup.py'],
  ['pytest', 'conftest.py'],
  ['gradle', 'build.gradle build.gradle.kts'],
  ['mvn', 'pom.xml'],
  ['composer', 'composer.json'],
)

export const scriptFile =
  /\.(sh|bash|zsh|fish|ksh|csh|py|pyw|rb|pl|pm|js|mjs|cjs|ts|mts|php|lua|tcl|ps1|bat|cmd|command|run|jar|awk|r)$/i
