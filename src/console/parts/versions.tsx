import type { AnswerOf } from '../../api/routes/index.ts'
import { workflowPath } from '../../contract/pages.ts'
import type { PersonsVisit } from '../visit.ts'
import { Diff } from './contents.tsx'
import { differencesOf } from './differences.ts'
import { Confirm, Field } from './form.tsx'
import { actions, Table } from './list.tsx'
import { Time } from './time.tsx'
import { Message, whoOf, Words } from './words.tsx'

/* The versions of a workflow, and two of them side by side. */

type Workflow = AnswerOf<'GET /workflows/{id}'>
type Listed = AnswerOf<'GET /workflows/{id}/versions'>['versions'][number]
type Version = AnswerOf<'GET /workflows/{id}/versions/{version}'>

export function Versions(props: {
  readonly workflow: Workflow
  readonly versions: readonly Listed[]
  readonly mayRollBack: boolean
  readonly visit: PersonsVisit
  /** There are no earlier ones. */
  readonly isLast: boolean
}) {
  const { workflow, versions, mayRollBack, visit, isLast } = props
  const path = workflowPath(workflow.id)
  return (
    <section aria-labelledby="versions">
      <h2 id="versions">Versions</h2>
      <Table
        label="Versions"
        head={['Version', 'Saved', ...(mayRollBack ? [actions] : [])]}
        rows={versions.map((each) => [
          <>
            <strong>{String(each.version)}</strong>
            {each.rolled_back_to === null ? null : (
              <span class="quiet">{`, the same as ${each.rolled_back_to}`}</span>
            )}
            {each.message === '' ? null : (
              <p class="small">
                <Words text={each.message} most={300} />
              </p>
            )}
            {each.version === 1 ? null : (
              <p class="small">
                <a href={`${path}?from=${each.version - 1}&to=${each.version}`}>
                  What changed<span class="unseen">{` in version ${each.version}`}</span>
                </a>
              </p>
            )}
          </>,
          <>
            <Time at={each.deployed_at} now={visit.now} /> by{' '}
            <Words text={whoOf(each.deployed_by_email)} most={254} />
          </>,
          ...(mayRollBack
            ? [
                each.version === workflow.version ? null : (
                  <RollBack {...{ path, visit, version: each.version }} />
                ),
              ]
            : []),
        ])}
      />
      {isLast ? null : (
        <p>
          <a href={`${path}?before=${versions.at(-1)?.version ?? 1}#versions`}>Earlier versions</a>
        </p>
      )}
      {workflow.version < 2 ? null : <Compare workflow={workflow} />}
    </section>
  )
}

const RollBack = ({ path, visit, version }: { path: string; visit: PersonsVisit; version: number }) => (
  <Confirm
    action={path}
    token={visit.token}
    value="rollback"
    open={`Go back to ${version} …`}
    explanation={`The next run does what version ${version} did. It becomes a new version, so nothing is lost. Runs in progress go on as they are.`}
    sure={`Go back to version ${version}`}
  >
    <input type="hidden" name="version" value={String(version)} />
    <Field name="message" id={`message-${version}`} label="Why" most={2_000} optional />
  </Confirm>
)

const Compare = ({ workflow }: { workflow: Workflow }) => (
  <form method="get" action={workflowPath(workflow.id)} class="compare" aria-label="Compare two versions">
    <Number name="from" label="From version" value={workflow.version - 1} most={workflow.version} />
    <Number name="to" label="To version" value={workflow.version} most={workflow.version} />
    <button>Compare</button>
  </form>
)

const Number = (props: { name: string; label: string; value: number; most: number }) => (
  <div>
    <label for={props.name}>{props.label}</label>
    <input
      id={props.name}
      name={props.name}
      type="number"
      min={1}
      max={props.most}
      value={String(props.value)}
      required
    />
  </div>
)

const mostCharacters = 200_000

export function Compared(props: {
  readonly before: Version
  readonly after: Version
  readonly write: (value: object) => string
}) {
  const { before, after, write } = props
  const lines = differencesOf(before.definition, after.definition)
  const [was, is] = [write(before.definition), write(after.definition)]
  return (
    <section class="card stack" aria-labelledby="compared">
      <h2 id="compared">{`From version ${before.version} to version ${after.version}`}</h2>
      {lines.length === 0 ? (
        <p>They are the same.</p>
      ) : (
        <>
          <ul class="bullets">
            {lines.map((line) => (
              <li>
                <Message text={line} />
              </li>
            ))}
          </ul>
          {was.length + is.length > mostCharacters ? null : (
            <details>
              <summary>Line by line</summary>
              <Diff
                diff={{ before: was, after: is, skipped: 0 }}
                sides={{
                  before: `version ${before.version}`,
                  nothing: '',
                  after: `version ${after.version}`,
                }}
                kind="json"
              />
            </details>
          )}
        </>
      )}
    </section>
  )
}
