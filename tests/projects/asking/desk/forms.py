from django import forms

from tests.projects.asking.desk.models import Item


class StateForm(forms.Form):
    state = forms.ChoiceField(choices=Item.State)
    note = forms.CharField(required=False)
