import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { AnswerOf } from '../../api/routes/index.ts'
import type { ApprovalView } from '../visit.ts'
import { effectWord } from '../../policy/explain.ts'
import { capital, Sentence, Words } from './words.tsx'

/* A state is a word and an icon. The colour only repeats the meaning of the word. */

export type Tone = 'wait' | 'good' | 'bad' | 'off' | 'warn' | 'hold' | 'go'

/** Paths in a box of 16 by 16. */
const icons = {
  wait: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm0 3V8l2.5 1.5',
  good: 'M3 8.5 6.5 12 13 4.5',
  bad: 'M4 4l8 8M12 4l-8 8',
  off: 'M3 8h10',
  hold: 'M5.5 3.5v9M10.5 3.5v9',
  go: 'M5 3.2v9.6L12.5 8Z',
  warn: 'M8 2 1.5 13.5h13L8 2Zm0 4.5v3.5m0 1.7v.3',
  person: 'M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm-6 6.5c.6-3 3-4.5 6-4.5s5.4 1.5 6 4.5',
  filter: 'M2 4h12M4.5 8h7M7 12h2',
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9Zm3.3 7.8 3.4 3.4',
} as const satisfies Record<Tone | 'person' | 'filter' | 'search', string>

export function Icon({ name }: { name: keyof typeof icons }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width={16} height={16} aria-hidden="true" focusable="false">
      <path
        d={icons[name]}
        fill="none"
        stroke="currentColor"
        stroke-width={1.8}
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  )
}

export function Badge({ tone, word }: { tone: Tone; word: string }) {
  return (
    <span class={`badge ${tone}`}>
      <Icon name={tone} />
      {word}
    </span>
  )
}

const approvalStates: Readonly<Record<string, readonly [Tone, string]>> = {
  pending: ['wait', 'Waiting for a decision'],
  approved: ['good', 'Approved'],
  rejected: ['bad', 'Rejected'],
  cancelled: ['off', 'Withdrawn'],
  expired: ['off', 'Expired'],
  answered: ['good', 'Answered'],
  revised: ['off', 'Edited'],
}

type Voted = Pick<ApprovalView, 'status' | 'votes'>

/** A rejection that asks for something else. */
export const wantsChanges = ({ status, votes }: Voted): boolean =>
  status === 'rejected' && votes.some(({ changes_requested: wants }) => wants)

export function ApprovalState({ approval }: { approval: Voted }) {
  const { status } = approval
  if (wantsChanges(approval)) return <Badge tone="hold" word="Changes requested" />
  const [tone, word] = approvalStates[status] ?? ['off', status]
  return <Badge tone={tone} word={word} />
}

const riskTones: Readonly<Record<string, Tone>> = {
  low: 'off',
  medium: 'warn',
  high: 'warn',
  critical: 'bad',
}

export function Risk({ level }: { level: string }) {
  return <Badge tone={riskTones[level] ?? 'warn'} word={`${capital(level)} risk`} />
}

const runStates: Readonly<Record<string, readonly [Tone, string]>> = {
  queued: ['wait', 'Queued'],
  awaiting_approval: ['hold', 'Awaits approval'],
  running: ['go', 'Running'],
  paused: ['hold', 'Paused'],
  completed: ['good', 'Completed'],
  failed: ['bad', 'Failed'],
  denied: ['bad', 'Denied'],
  rejected: ['bad', 'Rejected'],
  expired: ['off', 'Expired'],
  cancelled: ['off', 'Cancelled'],
  pending: ['off', 'Not started'],
  held: ['hold', 'Waits for approval'],
  waiting: ['wait', 'Waits'],
  skipped: ['off', 'Skipped'],
  unknown_outcome: ['warn', 'Outcome unknown'],
  intent: ['go', 'Starting'],
  sent: ['go', 'Running'],
  retry: ['wait', 'Tried again'],
  superseded: ['off', 'Ended without an outcome'],
}

export const wordOf = (status: string): string => runStates[status]?.[1] ?? status

export const toneOf = (status: string): Tone => runStates[status]?.[0] ?? 'off'

/** The state of a step as pages show it: only a step with a tool is held for an approval. */
export const stateOf = ({ kind, status }: { kind: string; status: string }): string =>
  kind !== 'tool' && status === 'held' ? 'waiting' : status

/** The state of a run, a step or a call. */
export function RunState({ status }: { status: string }) {
  return <Badge tone={toneOf(status)} word={wordOf(status)} />
}

/** The host of the stand-ins for services, in development; null without them. */
export const StandIns = createContext<string | null>(null)

/** From left to right, whatever stands around it. */
export function Host({ host }: { host: string }) {
  const isStandIn = useContext(StandIns) === host
  return (
    <>
      <bdi dir="ltr">
        <Words text={host} most={253} />
      </bdi>
      {isStandIn ? ' (a stand-in on this machine, for development only)' : null}
    </>
  )
}

/** A mail goes to its recipients, not to the server that takes it. */
export const Way = ({ tool, host }: { tool: string | null; host: string }) => (
  <>
    {tool === 'mail_send' ? 'through the mail server' : 'to'} <Host host={host} />
  </>
)

/** As in the explanations of rules. */
export const effectTitle = (effect: string): string => capital(effectWord(effect))

export const Effect = ({ effect }: { effect: string }) => (
  <Badge tone={effect === 'read' ? 'off' : 'warn'} word={effectTitle(effect)} />
)

/** The effect of a tool of the catalogue, also where the present connection makes it another one. */
export const EffectOf = ({
  tool,
}: {
  tool: Pick<AnswerOf<'GET /tools/{name}'>, 'side_effect' | 'side_effect_now'>
}) => (
  <>
    {effectTitle(tool.side_effect)}
    {tool.side_effect_now === tool.side_effect
      ? null
      : '; with the present connection it counts as sending data out'}
  </>
)

export function Labels({ labels, most = 12 }: { labels: readonly string[]; most?: number }) {
  return (
    <span class="badges">
      {labels.slice(0, most).map((label) => (
        <span class="label">{label}</span>
      ))}
      {labels.length > most ? <span class="quiet small">{`and ${labels.length - most} more`}</span> : null}
    </span>
  )
}

const most = 5

/** For an agent, tools that it has used; for a run, steps, inputs and files. */
export function Sources({ from, isAgents }: { from: readonly string[]; isAgents: boolean }) {
  if (from.length === 0) return null
  return (
    <span class="quiet small">
      from{' '}
      {from.slice(0, most).map((source, index) => {
        const [kind, name, end = ''] = isAgents ? toolNamed(source) : named(source)
        return [
          index === 0 ? '' : ', ',
          `${kind} `,
          <code>
            <Words text={name} most={100} />
          </code>,
          end,
        ]
      })}
      {from.length > most ? ` and ${from.length - most} more` : ''}
    </span>
  )
}

type Named = readonly [string, string, string?]

const toolNamed = (tool: string): Named => ['tool', tool]

/** In the API, an input is `input.NAME`, and a step of another run is `RUN/STEP`. */
function named(source: string): Named {
  if (/^file_[0-9A-Z]{26}$/.test(source)) return ['file', source]
  const [first = '', ...others] = source.split('/')
  if (others.length > 0) return ['step', others.join('/'), ' of another run']
  if (first === 'typed.values') return ['values', 'typed into the held call']
  return first.startsWith('input.') ? ['input', first.slice('input.'.length)] : ['step', first]
}

/** The title of an approval. That of a change has names in backticks. */
export const Asks = ({ approval }: { approval: ApprovalView }) =>
  approval.kind === 'change' ? (
    <Sentence text={sentenceOf(approval)} />
  ) : (
    <Words text={sentenceOf(approval)} />
  )

/** For places without elements. */
export const plainTitle = (approval: ApprovalView): string =>
  approval.kind === 'change' ? sentenceOf(approval).replaceAll('`', '') : sentenceOf(approval)

/** What the request would do if it is approved, or the question. */
export function sentenceOf(approval: ApprovalView): string {
  const act = actOf(approval)
  if (approval.kind !== 'repeat') return act
  return approval.status === 'pending' ? `Already done once. Do it again? ${act}` : `Once more: ${act}`
}

function actOf(props: ApprovalView): string {
  const { kind, tool, summary, side_effect, preview, workflow_name: workflow } = props
  if (preview !== undefined) return preview.title
  if (kind === 'change') return summary ?? 'A change'
  if (kind === 'ask') return summary ?? 'A question'
  if (kind === 'run') return workflow === null ? 'Start a whole run' : `Start the whole run of “${workflow}”`
  return `${kind === 'agent_call' ? 'An agent’s call of' : 'A call of'} ${tool ?? 'a tool'}, which ${effectWord(side_effect ?? 'write')}`
}
