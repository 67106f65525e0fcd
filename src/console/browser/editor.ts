import {
  autocompletion,
  closeBrackets,
  completionKeymap,
  type CompletionContext,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { lintKeymap, setDiagnostics } from '@codemirror/lint'
import { EditorState, type Text } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { choicesAt, type Known, type Schema, type Tool } from './complete.ts'

/*
 * The editor of a workflow, loaded on its two pages alone. It takes the place of the text area, which stays in the form.
 * While a person types, it sends the form as the button "Check" does, and shows the part of the answer that has the
 * mistakes and the picture.
 */

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--wait)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: 'var(--warn)' },
  { tag: tags.comment, color: 'var(--quiet)' },
])

const line = '1px solid var(--strong-line)'
const look = EditorView.theme({
  '&': {
    minHeight: '24rem',
    fontSize: 'var(--small)',
    color: 'var(--ink)',
    background: 'var(--surface)',
    border: line,
    borderRadius: 'var(--radius)',
  },
  '&.cm-focused': { outline: '2px solid var(--action)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'ui-monospace, monospace', lineHeight: '1.6', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--ink)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': {
    color: 'var(--quiet)',
    background: 'var(--surface)',
    borderRight: '1px solid var(--line)',
  },
  '.cm-activeLine, .cm-activeLineGutter': { background: 'var(--raised)' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': { background: 'var(--wait-back)' },
  // The pictures of the library would be refused by the page's policy.
  '.cm-lintRange.cm-lintRange-error': {
    backgroundImage: 'none',
    textDecoration: 'underline wavy var(--bad)',
  },
  '.cm-tooltip': {
    color: 'var(--ink)',
    background: 'var(--surface)',
    border: line,
    borderRadius: 'var(--radius)',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': {
    color: 'var(--action-ink)',
    background: 'var(--action)',
  },
  '.cm-tooltip.cm-completionInfo': { maxWidth: '24rem', padding: 'var(--space-2)' },
})

/** Milliseconds without a key before the text is checked, and after a failed check. */
const [pause, longPause] = [600, 8_000]

const area = document.querySelector('textarea[data-editor]')
if (area instanceof HTMLTextAreaElement && area.form !== null) start(area, area.form)

function start(area: HTMLTextAreaElement, form: HTMLFormElement): void {
  let isWritten = false
  const check = checkOf(form, () => view)
  // The page's policy allows no style elements. In a root of its own, the editor has sheets without elements.
  const place = document.createElement('div')
  const root = place.attachShadow({ mode: 'open' })
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        yaml(),
        syntaxHighlighting(colours),
        look,
        EditorView.lineWrapping,
        autocompletion({ override: [complete] }),
        // The tab key leads to the next field, as everywhere.
        keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, ...lintKeymap]),
        EditorView.contentAttributes.of({ 'aria-label': 'Definition', spellcheck: 'false' }),
        EditorView.updateListener.of(({ docChanged, state }) => {
          if (!docChanged) return
          isWritten = true
          area.value = state.doc.toString()
          check.soon(pause)
        }),
      ],
    }),
  })
  area.hidden = true
  area.after(place)
  showMistakes(view)
  form.addEventListener('submit', () => {
    isWritten = false
  })
  addEventListener('beforeunload', (event) => {
    if (isWritten) event.preventDefault()
  })
  const file = form.querySelector('[data-open-file]')
  file?.closest('[hidden]')?.removeAttribute('hidden')
  file?.addEventListener('change', () => {
    const [chosen] = file instanceof HTMLInputElement ? (file.files ?? []) : []
    void chosen?.text().then((text) => {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } })
      view.focus()
    })
  })
}

/** Asks for the page with this text, and takes over what stands beside it. */
function checkOf(form: HTMLFormElement, view: () => EditorView) {
  let timer: ReturnType<typeof setTimeout> | undefined
  let running: AbortController | null = null
  const soon = (milliseconds: number): void => {
    clearTimeout(timer)
    timer = setTimeout(() => void ask(), milliseconds)
  }
  const ask = async (): Promise<void> => {
    running?.abort()
    running = new AbortController()
    const { signal } = running
    const body = new URLSearchParams()
    for (const [name, value] of new FormData(form)) if (typeof value === 'string') body.set(name, value)
    body.set('action', 'check')
    try {
      const answer = await fetch(form.getAttribute('action') ?? '', { method: 'POST', body, signal })
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
      const [old, fresh] = [document, page].map((each) => each.querySelector('[data-live=editor]'))
      if (!old) return
      if (fresh) old.replaceWith(document.adoptNode(fresh))
      else if (answer.status === 429 || answer.status >= 500) soon(longPause)
      // The sign-in has ended, or the role is another one.
      else old.replaceChildren(...page.querySelectorAll('main h1, main p, main li'))
      showMistakes(view())
    } catch {
      if (!signal.aborted) soon(longPause)
    }
  }
  return { soon }
}

interface Mistake {
  readonly line: number | null
  readonly column: number | null
  readonly message: string
}

function showMistakes(view: EditorView): void {
  const { doc } = view.state
  const mistakes = (dataOf('mistakes') ?? []) as readonly Mistake[]
  const shown = mistakes.flatMap(({ line, column, message }) =>
    line === null ? [] : [{ ...rangeOf(doc, line, column ?? 1), severity: 'error' as const, message }],
  )
  view.dispatch(setDiagnostics(view.state, shown))
}

/** From the place to the end of its line. */
function rangeOf(doc: Text, line: number, column: number): { from: number; to: number } {
  const { from, to } = doc.line(Math.min(Math.max(1, line), doc.lines))
  return { from: Math.min(from + column - 1, to), to }
}

/** What the server has written into the page. */
function dataOf(name: string): unknown {
  const text = document.querySelector(`[data-${name}]`)?.getAttribute(`data-${name}`)
  return text ? JSON.parse(text) : null
}

type Loaded = Pick<Known, 'tools' | 'schema'>
let loading: Promise<Loaded> | undefined
/** From the last text whose steps could be read. */
let last: Pick<Known, 'inputs' | 'steps' | 'functions'> = { inputs: [], steps: {}, functions: [] }

async function load(): Promise<Loaded> {
  const read = async (path: string): Promise<unknown> => {
    const answer = await fetch(path)
    return answer.ok ? answer.json() : null
  }
  const [tools, schema] = await Promise.all([read('/api/v1/tools?limit=200'), read('/workflow-schema')])
  return { tools: (tools as { data?: readonly Tool[] } | null)?.data ?? [], schema: schema as Schema | null }
}

async function complete(context: CompletionContext) {
  loading ??= load().catch(() => ({ tools: [], schema: null }))
  last = (dataOf('known') as typeof last | null) ?? last
  const { doc } = context.state
  const found = choicesAt(doc.sliceString(0, context.pos), doc.sliceString(context.pos), {
    ...(await loading),
    ...last,
  })
  if (found === null || (found.typed === 0 && !context.explicit && !followsSign(doc, context.pos)))
    return null
  return { from: context.pos - found.typed, options: [...found.list], validFor: /^[\w$-]*$/ }
}

/** Behind these signs, choices are offered before a letter is typed. */
const followsSign = (doc: Text, place: number): boolean =>
  /(?:\{\{ ?|\.|tool: )$/.test(doc.sliceString(Math.max(0, place - 8), place))
