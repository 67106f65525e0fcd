import './no-circles-a.ts'
