import type { AnswerOf } from '../../api/routes/index.ts'
import { freezePath, inboxPath, rerunsPath, triggersPath } from '../../contract/pages.ts'
import { counted } from '../../policy/units.ts'
import { empty, Field, labelled, onceOf, Refused, Told, type Filled } from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { Badge } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import { OrganizationName, whoOf, Words } from '../parts/words.tsx'
import { isAtLeast, organizationId, type Form, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'

/* `/console/freeze`: everybody sees whether everything is stopped, and why. Owners stop it, and let it go on. */

type Freeze = AnswerOf<'GET /organizations/{id}/freeze'>

const labels = { reason: 'Why', word: 'Confirmation' }

/** `GET /console/freeze` */
export async function freezePage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels, {}, 'Nothing has changed. Correct this:')
  const read = await visit.api.call('GET /organizations/{id}/freeze', {
    params: { id: organizationId(visit) },
  })
  if (!read.ok) return problemPage(read, visit.place)
  const freeze = read.body
  const verb = freeze.frozen ? 'unfreeze' : 'freeze'
  return {
    status: filled.problem?.status ?? 200,
    title: freeze.frozen ? 'Frozen' : 'Freeze',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Freeze</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>A freeze stops everything at once: runs, and agents.</p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        <State freeze={freeze} visit={visit} />
        {freeze.frozen ? <Waiting freeze={freeze} visit={visit} /> : null}
        {isAtLeast(visit, 'owner') ? (
          <Change key={verb} verb={verb} visit={visit} filled={filled} />
        ) : (
          <p class="note">
            {freeze.frozen
              ? 'An owner of the organization ends the freeze. Ask one.'
              : 'An owner of the organization can freeze it. In an emergency, call one.'}
          </p>
        )}
        <Effects />
      </article>
    ),
  }
}

const results = {
  freeze: 'Everything is frozen. It holds from the next call on, in every process.',
  unfreeze: 'The freeze has ended. The rules decide again. What was denied meanwhile stays denied.',
}

function State({ freeze, visit }: { freeze: Freeze; visit: PersonsVisit }) {
  const { frozen, changed } = freeze
  return (
    <section class={frozen ? 'card alert-card' : 'card'} aria-labelledby="state">
      <h2 id="state">
        {frozen ? <Badge tone="bad" word="Frozen" /> : <Badge tone="good" word="Not frozen" />}
      </h2>
      <p>
        {frozen
          ? 'Every call is denied until an owner unfreezes.'
          : 'Runs and agents work, and the rules decide each call.'}
      </p>
      {changed === null ? (
        <p class="quiet">The organization was never frozen.</p>
      ) : (
        <>
          {frozen ? null : <p>The last freeze has ended:</p>}
          <Facts
            facts={[
              [frozen ? 'Since' : 'When', <Time at={changed.at} now={visit.now} exact />],
              ['Who', <Words text={changed.by === null ? 'a person who is gone' : whoOf(changed.by)} />],
              ['Why', <Words text={freeze.reason ?? changed.reason} most={500} />],
            ]}
          />
        </>
      )}
    </section>
  )
}

function Waiting({ freeze: { waiting }, visit }: { freeze: Freeze; visit: PersonsVisit }) {
  const { approvals, trigger_starts: fired, rerun_starts: again } = waiting
  const isMember = isAtLeast(visit, 'member')
  const link = (path: string, words: string, isSeen = isMember) =>
    isSeen ? <a href={path}>{words}</a> : words
  return (
    <section class="stack" aria-labelledby="waits">
      <h2 id="waits">What waits now</h2>
      {approvals + fired + again === 0 ? <p>Nothing waits.</p> : null}
      <ul class="bullets">
        {approvals === 0 ? null : (
          <li>
            {link(inboxPath, counted(approvals, 'approval'))}
            {approvals === 1 ? ' waits' : ' wait'}: decide after the freeze, because a call that is approved
            earlier is denied when it is made.
          </li>
        )}
        {fired === 0 ? null : (
          <li>
            {link(triggersPath, upTo(fired, 'start of a trigger', 'starts of triggers'))}
            {fired === 1 ? ' has' : ' have'} not begun yet.
          </li>
        )}
        {again === 0 ? null : (
          <li>
            {link(rerunsPath, upTo(again, 'run', 'runs'), true)} to be made again
            {again === 1 ? ' waits' : ' wait'} for the end of the freeze.
          </li>
        )}
      </ul>
    </section>
  )
}

/** The API counts no further than this. */
const mostCounted = 1_000
const upTo = (count: number, one: string, many: string): string =>
  count === 1 ? `1 ${one}` : `${count.toLocaleString('en')}${count < mostCounted ? '' : ' or more'} ${many}`

function Change(props: { verb: 'freeze' | 'unfreeze'; visit: PersonsVisit; filled: Filled }) {
  const { verb, visit, filled } = props
  const isFreeze = verb === 'freeze'
  return (
    <section class="card" aria-labelledby="change">
      <h2 id="change">{isFreeze ? 'Stop everything' : 'Let everything go on'}</h2>
      <PostForm action={freezePath} token={visit.token} class="fill">
        <OnceField />
        <Field
          name="reason"
          rows={2}
          least={1}
          most={500}
          help={
            isFreeze
              ? 'Everybody in the organization reads it, and agents get it with each denial.'
              : 'It stays in the audit log, and on this page.'
          }
          filled={filled}
        />
        <Field
          name="word"
          label={`Type ${verb}`}
          most={100}
          help={isFreeze ? 'So that nobody stops everything by a slip.' : 'So that nobody ends it by a slip.'}
          filled={filled}
        />
        <button class={isFreeze ? 'danger' : 'primary'} name="action" value={verb}>
          {isFreeze ? 'Freeze everything now' : 'Unfreeze'}
        </button>
      </PostForm>
    </section>
  )
}

const Effects = () => (
  <div class="pair">
    <section class="card" aria-labelledby="stops">
      <h2 id="stops">What a freeze stops</h2>
      <ul class="bullets">
        <li>Every call of a run and of an agent is denied, and no run starts.</li>
        <li>A run that is under way ends as denied at its next call. After the freeze, make it again.</li>
        <li>
          A schedule skips its due times. A message to a trigger starts no run, and its firing says why.
        </li>
        <li>Polls, and runs to be made again, wait.</li>
        <li>Nobody connects a service, tests a webhook or answers the question of a run.</li>
      </ul>
    </section>
    <section class="card" aria-labelledby="goes">
      <h2 id="goes">What goes on</h2>
      <ul class="bullets">
        <li>
          A call that was sent already ends as it would. If its answer is lost, a person says what happened.
        </li>
        <li>Mails, messages in Slack and webhooks leave.</li>
        <li>People vote, cancel runs and settle unknown outcomes.</li>
        <li>People change rules, settings, members, keys and workflows: mend what was wrong.</li>
        <li>The audit log is written, and can be exported.</li>
      </ul>
    </section>
  </div>
)

/** `POST /console/freeze` */
export async function changeFreeze(visit: PersonsVisit, form: Form): Promise<Shown> {
  const verb = form.get('action') === 'unfreeze' ? 'unfreeze' : 'freeze'
  if ((form.get('word') ?? '').trim().toLowerCase() !== verb)
    return freezePage(visit, { form, problem: mistyped(verb) })
  const done = await visit.api.call(`POST /organizations/{id}/${verb}`, {
    params: { id: organizationId(visit) },
    body: { reason: (form.get('reason') ?? '').trim() },
    ...onceOf(form),
  })
  return done.ok ? { redirect: `${freezePath}?done=${verb}` } : freezePage(visit, { form, problem: done })
}

function mistyped(verb: string) {
  const message = `type the word ${verb}`
  return { status: 422, code: 'validation_error', message, details: [{ path: 'word', message }] }
}
