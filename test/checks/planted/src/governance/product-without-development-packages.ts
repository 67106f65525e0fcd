import 'jest'
