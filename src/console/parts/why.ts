import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { RuleBody } from '../../policy/rule.ts'
import { describeConditions } from '../../policy/explain.ts'
import { Sources } from './sources.ts'
import { Message, Sentence, Words } from './words.ts'

/** Shows why a call is held: the rules that require the approval, the risk of the call, and the labels of its data. */
export function Why({
  approval,
  rule,
}: {
  readonly approval: ApprovalView
  readonly rule: RuleBody | null
}): ComponentChild {
  const { risk, labels } = approval
  return h('section', { 'aria-labelledby': 'why' }, [
    h('h2', { id: 'why' }, approval.status === 'pending' ? 'Why it is held' : 'Why it was held'),
    h(Held, { approval, rule }),
    h(Others, { approval }),
    approval.held_again === null ? null : h('p', null, h(Message, { text: approval.held_again })),
    risk.reasons.length === 0
      ? null
      : h('div', null, [
          h('h3', null, `Why the risk is ${risk.level}`),
          h(
            'ul',
            { class: 'bullets' },
            risk.reasons.map((reason) => h('li', null, h(Sentence, { text: reason }))),
          ),
        ]),
    labels.length === 0
      ? h('p', { class: 'quiet' }, 'The data has no labels.')
      : h('div', null, [
          h('h3', null, 'Labels of the data'),
          h(
            'ul',
            { class: 'stack' },
            labels.map((label) =>
              h('li', null, [
                h('span', { class: 'label' }, label),
                ' ',
                h(Sources, { from: sourcesOf(approval, label), isAgents: approval.kind === 'agent_call' }),
              ]),
            ),
          ),
        ]),
  ])
}

/**
 * Shows the explanation of the decision. If there is no explanation, shows the rule and its present conditions. The
 * rule may have changed since the decision. For a whole run, names the organization's settings instead of a rule.
 */
function Held({
  approval,
  rule,
}: {
  readonly approval: ApprovalView
  readonly rule: RuleBody | null
}): ComponentChild {
  const explanation = approval.detail?.explanation ?? null
  if (explanation !== null) return h('p', null, h(Message, { text: explanation }))
  if (approval.kind === 'run')
    return h('p', null, 'The settings of the organization hold a run like this before it starts.')
  if (approval.rule_name === null) return null
  return h('p', null, [
    'Rule ',
    h('strong', null, h(Words, { text: approval.rule_name })),
    rule === null ? null : [' holds a call when ', h(Sentence, { text: describeConditions(rule) })],
    '.',
  ])
}

/** Shows the names of the other rules that also require the approval. */
function Others({ approval }: { readonly approval: ApprovalView }): ComponentChild {
  const others = (approval.detail?.held_by ?? []).filter((name) => name !== approval.rule_name)
  if (others.length === 0) return null
  const shown = others.slice(0, mostRules)
  return h('p', null, [
    others.length === 1 ? 'Another rule holds it too: ' : `${others.length} more rules hold it too: `,
    shown.map((name, index) => [index === 0 ? null : ', ', h('strong', null, h(Words, { text: name }))]),
    others.length > mostRules ? ' and others' : null,
    '.',
  ])
}

/** Maximum number of other rules that a page names. */
const mostRules = 10

const sourcesOf = ({ detail }: ApprovalView, label: string): readonly string[] =>
  detail?.label_sources.find((source) => source.label === label)?.from ?? []
