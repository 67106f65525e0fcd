import { describe, expect, test } from '@jest/globals'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { checkAnswer, type Question } from '../../src/steps/ask.ts'
import { kindOf } from '../../src/steps/index.ts'
import { issuesOfSteps } from './issues.ts'

const toSales = { to: { group: 'sales' }, title: 'Refund this order?' }
const decide = (over: object = {}) => ({ id: 'decide', ask: { ...toSales, choices: ['yes', 'no'], ...over } })
const form = {
  action: { type: 'string', required: true, options: ['refund', 'refuse'] },
  message: { type: 'string', format: 'text' },
  day: { type: 'string', format: 'date' },
  amount: { type: 'number' },
}
const withForm = (over: object = {}) => ({ id: 'decide', ask: { ...toSales, form, ...over } })
const uses = (text: string) => ({ id: 'use', tool: 'memory_get', params: { key: text } })

test('a step `ask` is saved, and the fields of its answer are known', () => {
  const all = {
    show: { day: '{{input.day}}', nested: [{ text: '{{input.csv}}' }] },
    expires_after_seconds: 86_400,
    remind_after_seconds: 3_600,
    escalate: [{ after_seconds: 7_200, to: 'owner' }],
    otherwise: 'no',
  }
  expect(issuesOfSteps([decide(all), uses('{{decide.output.answer}}')])).toEqual([])
  expect(issuesOfSteps([decide({ to: { person: '{{input.day}}' } })])).toEqual([])
  expect(issuesOfSteps([decide({ to: 'requester' })])).toEqual([])
  expect(issuesOfSteps([withForm(), uses('{{decide.output.answer.action}} {{decide.output.by}}')])).toEqual(
    [],
  )
  expect(issuesOfSteps([withForm(), uses('{{decide.output.answer.actoin}}')])).toEqual([
    'steps.1.params.key: step `use`: parameter `key`: `{{decide.output.answer.actoin}}`: `answer` has no `actoin` (it has `action`, `message`, `day`, `amount`)',
  ])
})

describe('a step is refused', () => {
  test.each<[object, RegExp]>([
    [decide({ form }), /^steps\.0\.ask: step `decide`: an `ask` has either `choices` or a `form`/],
    [{ id: 'decide', ask: toSales }, /either `choices` or a `form`/],
    [decide({ choices: ['yes'] }), /^steps\.0\.ask\.choices: give at least two choices/],
    [decide({ choices: ['yes', 'yes'] }), /names a choice twice/],
    [decide({ title: 'Refund {{input.day}}?' }), /^steps\.0\.ask\.title: .*put values into `show`/],
    [decide({ choices: ['{{input.day}}', 'no'] }), /^steps\.0\.ask\.choices: .*put values into `show`/],
    [decide({ title: 'two\nlines' }), /must be one line/],
    [decide({ to: 'admin' }), /^steps\.0\.ask\.to: must be `requester`, a group/],
    [decide({ to: { person: 'tom' } }), /^steps\.0\.ask\.to\.person: .*must be the mail address of a member/],
    [decide({ to: { person: '{{input.seconds}}' } }), /must be a mail address, and this is a number/],
    [decide({ show: { a: '{{input.nothing}}' } }), /^steps\.0\.ask\.show: .*declares no input `nothing`/],
    [decide({ show: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [n, n])) }), /at most 50 values/],
    [decide({ otherwise: 'maybe' }), /^steps\.0\.ask\.otherwise: .*must be one of `yes` or `no`/],
    [
      withForm({ otherwise: { action: 'x' } }),
      /^steps\.0\.ask\.otherwise\.action: .*must be one of `refund`/,
    ],
    [withForm({ otherwise: {} }), /field `action` is required/],
    [withForm({ form: {} }), /needs at least one field/],
    [
      withForm({ form: { 'a b': { type: 'string' } } }),
      /^steps\.0\.ask\.form\.a b: .*field `a b`: a name has/,
    ],
    [withForm({ form: { a: { type: 'number', options: ['1'] } } }), /only a field of type string has/],
    [withForm({ form: { a: { type: 'string', labels: ['x'] } } }), /labels/],
    [decide({ remind_after_seconds: 60, expires_after_seconds: 60 }), /must be less than `expires_after/],
    [decide({ escalate: [{ after_seconds: 60, to: { group: 'sales' } }] }), /is asked from the beginning/],
    [{ ...decide(), tool: 'memory_get' }, /has `tool` or `ask`, not both/],
  ])('%j', (step, issue) => {
    expect(issuesOfSteps([step]).join('\n')).toMatch(issue)
  })
})

describe('an answer', () => {
  const question = (step: object): Question => {
    const [only] = workflowDefinition.parse({ steps: [step] }).steps
    return only?.ask as Question
  }

  test.each([
    ['yes', { answer: 'yes' }],
    ['Yes', [{ path: 'answer', message: 'must be one of `yes` or `no`' }]],
    [null, [{ path: 'answer', message: 'must be one of `yes` or `no`' }]],
    [['yes'], [{ path: 'answer', message: 'must be one of `yes` or `no`' }]],
  ])('to choices: %j', (answer, result) => {
    expect(checkAnswer(question(decide()), answer)).toEqual(result)
  })

  test.each<[unknown, unknown]>([
    [{ action: 'refund' }, { answer: { action: 'refund', message: null, day: null, amount: null } }],
    [
      { action: 'refuse', message: 'no', day: '2026-12-24', amount: 3 },
      { answer: { action: 'refuse', message: 'no', day: '2026-12-24', amount: 3 } },
    ],
    ['refund', ['answer']],
    [{}, ['answer.action']],
    [{ action: 'burn' }, ['answer.action']],
    [{ action: 'refund', amount: '3' }, ['answer.amount']],
    [{ action: 'refund', day: '2026-02-30' }, ['answer.day']],
    [{ action: 'refund', other: 1 }, ['answer.other']],
    [{ action: 'refund', message: 'x'.repeat(10_001) }, ['answer.message']],
  ])('to a form: %j', (answer, result) => {
    const checked = checkAnswer(question(withForm()), answer as never)
    expect(Array.isArray(checked) ? checked.map(({ path }) => path) : checked).toEqual(result)
  })
})

test('a preview says whom the step asks', () => {
  const waits = (to: unknown) => {
    const [step] = workflowDefinition.parse({ steps: [decide({ to })] }).steps
    return step === undefined ? null : kindOf(step).waits(step)
  }
  expect(waits({ group: 'sales' })).toBe('an answer of a member of `sales`')
  expect(waits({ person: 'tom@reyes.example' })).toBe('an answer of tom@reyes.example')
  expect(waits('requester')).toBe('an answer of the person who started the run')
})
