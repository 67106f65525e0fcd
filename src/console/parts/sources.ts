import { h, type ComponentChild } from 'preact'
import { Words } from './words.ts'

/** Maximum number of sources that one label names. */
const most = 5

/**
 * Shows where a label comes from. For an agent, the sources are tools that the agent has used. For a run, the sources
 * are steps, inputs and files.
 */
export function Sources({
  from,
  isAgents,
}: {
  readonly from: readonly string[]
  readonly isAgents: boolean
}): ComponentChild {
  if (from.length === 0) return null
  return h('span', { class: 'quiet small' }, [
    'from ',
    from.slice(0, most).map((source, index) => {
      const [kind, name, end = ''] = isAgents ? toolNamed(source) : named(source)
      return [index === 0 ? '' : ', ', `${kind} `, h('code', null, h(Words, { text: name, most: 100 })), end]
    }),
    from.length > most ? ` and ${from.length - most} more` : '',
  ])
}

type Named = readonly [string, string, string?]

const toolNamed = (tool: string): Named => ['tool', tool]

/**
 * Returns the words for a source: a file, an input or a step. In the API, an input is `input.NAME`, and a step of
 * another run is `RUN/STEP`.
 */
function named(source: string): Named {
  if (/^file_[0-9A-Z]{26}$/.test(source)) return ['file', source]
  const [first = '', ...others] = source.split('/')
  if (others.length > 0) return ['step', others.join('/'), ' of another run']
  return first.startsWith('input.') ? ['input', first.slice('input.'.length)] : ['step', first]
}
