import { installPath, keysPath, rulesPath, ruleTemplatesPath } from '../../contract/pages.ts'
import { empty, Select } from '../parts/form.tsx'
import { Copy } from '../parts/copy.tsx'
import { Island } from '../parts/island.tsx'
import { PostForm } from '../parts/layout.tsx'
import { Choice, Table } from '../parts/list.tsx'
import { isAtLeast, type PersonsVisit, type Shown } from '../visit.ts'

/* `/console/sessions/install`: how a coding agent asks first, for each client. The guide docs/agents.md has more. */

/** What `--dialect` takes, and the name of the client. */
const clients = [
  ['claude', 'Claude Code'],
  ['codex', 'Codex'],
  ['gemini', 'Gemini CLI'],
  ['copilot', 'GitHub Copilot CLI'],
  ['opencode', 'OpenCode'],
  ['cursor', 'Cursor'],
  ['vscode', 'VS Code'],
] as const

/** `GET /console/sessions/install`, with `?client=`. */
export function installPage(visit: PersonsVisit): Promise<Shown> {
  const given = visit.query.get('client')
  const [dialect, name] = clients.find(([each]) => each === given) ?? clients[0]
  return Promise.resolve({
    status: 200,
    title: 'Install the hook',
    main: (
      <article class="page medium">
        <header class="headline">
          <p class="crumbs small">
            <a href="/console/sessions">Agents</a>
          </p>
          <h1>{`Install the hook in ${name}`}</h1>
          <p>
            Then {name} asks before each call: a shell command, an edit, a web fetch. Your rules decide, and
            while the hook cannot reach Countersign, every call is blocked.
          </p>
        </header>
        <form method="get" action={installPath} class="search">
          <Choice name="client" label="Client" chosen={{ client: dialect }} options={clients} any={null} />
          <button>Show</button>
        </form>
        <Steps base={visit.base} dialect={dialect} />
        <Doctor dialect={dialect} />
        <section class="card stack" aria-labelledby="rules">
          <h2 id="rules">Rules to start with</h2>
          <p>
            Without a rule, every call is allowed. The rules for agents hold calls that send company data,
            open secrets, or push by force. Each one can be changed and switched off on the page Rules, which
            has <a href={ruleTemplatesPath}>more templates</a>.
          </p>
          {isAtLeast(visit, 'admin') ? (
            <PostForm action={rulesPath} token={visit.token} class="fill">
              <Select
                name="status"
                label="They begin"
                options={[
                  ['shadow', 'in shadow: they only record what they would hold'],
                  ['active', 'active: they hold from the next call on'],
                ]}
                value="shadow"
                filled={empty}
              />
              <button name="action" value="starter">
                Add the rules for agents
              </button>
            </PostForm>
          ) : (
            <p class="quiet">An admin or owner makes rules.</p>
          )}
        </section>
      </article>
    ),
  })
}

const Command = ({ id, children }: { id: string; children: string }) => (
  <div class="split">
    <code id={id} class="whole">
      {children}
    </code>
    <Island of={Copy} props={{ from: id, isPlain: true }} />
  </div>
)

function Steps({ base, dialect }: { base: string; dialect: string }) {
  return (
    <section class="card stack" aria-labelledby="steps">
      <h2 id="steps">On the machine of the agent</h2>
      <p>
        1. Make a key that can only ask, and copy it: it is shown once.{' '}
        <a href={`${keysPath}/new?for=agent&client=${dialect}`}>Make the key of an agent</a>
      </p>
      <p>2. Get the hook, one file for Python 3.8 or newer:</p>
      <Command id="get-command">{`curl -sS -o service_hook.py ${base}/api/v1/integrations/service_hook.py`}</Command>
      <p>
        Its checksum must be the <code>sha256</code> that <a href="/api/v1/integrations">this list</a> has:
      </p>
      <Command id="sum-command">sha256sum service_hook.py</Command>
      <p>3. Install it, with your key in place of KEY. It shows the changes first, and asks:</p>
      <Command id="install-command">{`SERVICE_API_URL=${base} SERVICE_API_KEY=KEY python3 service_hook.py install --dialect ${dialect}`}</Command>
      <p>4. Test it. Its session then stands on the page Agents:</p>
      <Command id="doctor-command">{`python3 ~/.countersign/service_hook.py doctor --dialect ${dialect}`}</Command>
    </section>
  )
}

/** The last line of `doctor`, and what to do. */
const endings = [
  ['works', 'Nothing: every test passed. A line with note says how a user could still get around the hook.'],
  ['not tried', 'Install the client, or put it on the PATH. The line says what could not be tried.'],
  ['not proven', 'See that the service answers at this address, and that the key holds. Then test again.'],
  [
    'NOT protected',
    'Read the line with FAIL: it says what is wrong, and what to change. Then install again.',
  ],
] as const

const Doctor = ({ dialect }: { dialect: string }) => (
  <details class="card">
    <summary>What the test says, and what to do</summary>
    <div class="stack">
      <p>
        It tests whether denied calls are blocked, also while the service cannot be reached; whether the
        settings cover all tools; whether a project or a variable can keep the hook from running; and whether
        the client is new enough.
      </p>
      <Table
        label="How the test ends"
        head={['It ends with', 'What to do']}
        rows={endings.map((each) => [...each])}
      />
      <p>To take the hook out again:</p>
      <Command id="uninstall-command">{`python3 ~/.countersign/service_hook.py install --uninstall --dialect ${dialect}`}</Command>
    </div>
  </details>
)
