import type { ComponentChild } from 'preact'
import type { AnswerOf } from '../../api/routes/index.ts'
import { keysPath, terminalPath } from '../../contract/pages.ts'
import { Field, Refused, empty, onceOf, type Filled } from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { Time } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import type { Form, PersonsVisit, Shown } from '../visit.ts'

/* `/console/terminal`: a person signs in the terminal in which they have typed `countersign login`. */

type Login = AnswerOf<'POST /terminal-logins/look'>

/** `GET /console/terminal?code=` */
export async function terminalPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const code = readCode(given.form?.get('code') ?? visit.query.get('code') ?? '')
  if (code === '') return shown(200, <AskCode filled={given} />)
  const found = await visit.api.call('POST /terminal-logins/look', { body: bodyOf(visit, code) })
  if (!found.ok) return shown(found.status, <AskCode filled={{ form: null, problem: found }} />)
  if (found.body.status !== 'open') return shown(given.problem?.status ?? 200, <Decided login={found.body} />)
  return shown(
    given.problem?.status ?? 200,
    <>
      <Refused filled={given} />
      <Compare visit={visit} code={code} login={found.body} />
    </>,
  )
}

/** `POST /console/terminal` */
export async function decideTerminal(visit: PersonsVisit, form: Form): Promise<Shown> {
  const code = readCode(form.get('code') ?? '')
  const action = form.get('action')
  if (action !== 'approve' && action !== 'deny')
    return { redirect: `${terminalPath}?code=${encodeURIComponent(code)}` }
  const request = { body: bodyOf(visit, code), ...onceOf(form) }
  const done =
    action === 'approve'
      ? await visit.api.call('POST /terminal-logins/approve', request)
      : await visit.api.call('POST /terminal-logins/deny', request)
  if (!done.ok) return terminalPage(visit, { form, problem: done })
  return { redirect: `${terminalPath}?code=${encodeURIComponent(code)}` }
}

/** As the terminal shows it. A link can have further text in it, which the page must not show. */
const readCode = (text: string): string =>
  text
    .toUpperCase()
    .replaceAll(/[^A-Z]/g, '')
    .slice(0, 50)
    .replace(/^(.{4})(?=.)/, '$1-')

const bodyOf = ({ person }: PersonsVisit, code: string) => ({
  code,
  ...(person.organization === null ? {} : { organization_id: person.organization.id }),
})

const shown = (status: number, main: ComponentChild): Shown => ({
  status,
  title: 'Sign a terminal in',
  main: (
    <article class="page medium">
      <header class="headline">
        <h1>Sign a terminal in</h1>
      </header>
      {main}
    </article>
  ),
})

const AskCode = ({ filled }: { filled: Filled }) => (
  <>
    <Refused filled={filled} />
    <form action={terminalPath} method="get" class="card fill">
      <Field
        name="code"
        label="Code"
        most={20}
        help="The eight letters that `countersign login` shows in the terminal."
        filled={{ form: null, problem: null }}
      />
      <button class="primary">Continue</button>
    </form>
  </>
)

function Compare({ visit, code, login }: { visit: PersonsVisit; code: string; login: Login }) {
  const { organization } = visit.person
  return (
    <section class="card stack" aria-labelledby="compare">
      <h2 id="compare">Does your terminal show this code?</h2>
      <p>
        <strong>
          <code>{code}</code>
        </strong>
      </p>
      <Facts
        facts={[
          ['Machine', <Words text={login.machine} most={100} />],
          ['Comes from', <Words text={login.address} most={100} />],
          ['Began', <Time at={login.created_at} now={visit.now} exact />],
          [
            'Acts in',
            organization === null ? 'no organization' : <OrganizationName name={organization.name} />,
          ],
        ]}
      />
      <p class="note">
        Say yes only if you have just typed <code>countersign login</code> on this machine yourself. Whoever
        has sent you this link can otherwise act as you: start runs, and decide approvals.
      </p>
      <p class="quiet">
        The terminal gets a key with everything that your role may do. It ends in 30 days, and stands in the
        list of <a href={keysPath}>keys</a>, where you can delete it.
      </p>
      <PostForm action={terminalPath} token={visit.token}>
        <OnceField />
        <input type="hidden" name="code" value={code} />
        <div class="buttons">
          <button class="primary" name="action" value="approve">
            Yes, sign it in
          </button>
          <button name="action" value="deny">
            No, refuse it
          </button>
        </div>
      </PostForm>
    </section>
  )
}

const Decided = ({ login }: { login: Login }) => (
  <section class="card stack" role="status">
    {login.status === 'approved' ? (
      <>
        <h2>The terminal is signed in</h2>
        <p>
          Go back to it. Its key is one of your <a href={keysPath}>keys</a>.
        </p>
      </>
    ) : (
      <>
        <h2>The terminal is refused</h2>
        <p>
          It gets no key. If you did not begin this login, tell whoever has sent you the link that you
          refused.
        </p>
      </>
    )}
  </section>
)
