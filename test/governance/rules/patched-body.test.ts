import { expect, test } from '@jest/globals'
import { patchedBody } from '../../../src/governance/rules/patched-body.ts'
import { ruleInput } from '../../../src/policy/rule.ts'

const saved = ruleInput.parse({ name: 'saved', verdict: 'deny', tools: ['mail_send'] })

test('a body is checked once, and again if it has changed', () => {
  const after = patchedBody('rule', { verdict: 'allow' })
  const first = after(saved)
  expect(first).toEqual({ ...saved, verdict: 'allow' })
  // The same object shows that nothing was checked again.
  expect(after({ ...saved })).toBe(first)
  expect(after({ ...saved, name: 'renamed' })).toEqual({ ...saved, name: 'renamed', verdict: 'allow' })
})

test('an error is kept too, and does not stay for another body', () => {
  const after = patchedBody('rule', { tools: null })
  const thrown = (): unknown => {
    try {
      return after(saved)
    } catch (error) {
      return error
    }
  }
  const error = thrown()
  expect(error).toMatchObject({ code: 'validation_error' })
  expect(thrown()).toBe(error)
  expect(after({ ...saved, side_effects: ['egress'] })).not.toHaveProperty('tools')
})
